// Package restart owns the command that restarts what runs of a job, or has it placed anew, batch by batch. Only
// package jobs imports it.
package restart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// What -batch-wait and -on-error know beside a duration.
const (
	ask  = "ask"
	fail = "fail"
)

// command is "job restart".
type command struct {
	env       *kit.Env
	agreement kit.Agreement
	batchSize string
	batchWait string
	onError   string
	groups    kit.Strings
	tasks     kit.Strings
	how       how
}

// how says what is done with each allocation.
type how struct{ all, reschedule, noShutdownDelay, verbose bool }

// Command is a verb of jobs.
func Command(e *kit.Env) *kit.Command {
	c := &command{env: e}
	cmd := &kit.Command{
		Use:   "restart [flags] <job>",
		Short: "Restart what runs of a job, batch by batch",
		Long: `Restarts the tasks that run of each allocation of a job, in place, batch by batch, and waits for
those of a batch to run again before the next; with -reschedule each allocation is stopped instead, and waited for until
another one runs in its place. It goes by the version that the job has: when that changes meanwhile, or a deployment is
under way, it ends, and says how far it has come.

Exit codes: 0, all of it was restarted; 1, something was not.`,
		Example: `  berth job restart web
  berth job restart -batch-size 2 -batch-wait 30s web
  berth job restart -group api -task server web
  berth job restart -reschedule -on-error fail -batch-size 25% web`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error { return c.do(ctx, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVar(&c.batchSize, "batch-size", "1", "how many at a time: a `number`, or a part of all, as 25%")
	fs.StringVar(&c.batchWait, "batch-wait", "0s", "how long to wait between batches; \"ask\": until a person agrees")
	fs.StringVar(&c.onError, "on-error", ask, "what to do when one cannot be restarted: \"ask\" or \"fail\"")
	fs.Var(&c.groups, "group", "only allocations of this `group`; may come again")
	fs.Var(&c.tasks, "task", "only this `task`; may come again")
	fs.BoolVar(&c.how.all, "all-tasks", false, "also tasks that have ended, as those that run before the others")
	fs.BoolVar(&c.how.reschedule, "reschedule", false, "stop each allocation and have it placed anew")
	fs.BoolVar(&c.how.noShutdownDelay, "no-shutdown-delay", false, "with -reschedule: stop without the shutdown delay")
	fs.BoolVar(&c.how.verbose, "verbose", false, "whole ids")
	c.agreement.AddTo(cmd)
	return cmd
}

// plan is what is restarted: of one version of a job, in batches.
type plan struct {
	ref     kit.Ref
	index   uint64 // the job's JobModifyIndex
	allocs  []*api.AllocationListStub
	size    int
	pause   time.Duration
	asks    bool // a person agrees to each batch
	carries bool // what cannot be restarted is asked about
}

func (c *command) do(ctx context.Context, arg string) error {
	if err := c.check(); err != nil {
		return err
	}
	ref, err := c.env.Job(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	p, err := c.plan(ctx, ref)
	if err != nil {
		return err
	}
	verb := "Restarting"
	if c.how.reschedule {
		verb = "Rescheduling"
	}
	if len(p.allocs) == 0 {
		c.say("No allocation of job %q runs that is to be restarted", ref.ID)
		return nil
	}
	c.say("%s %d allocations of job %q, %d at a time", verb, len(p.allocs), ref.ID, p.size)
	done, bad := 0, 0
	for batch := range slices.Chunk(p.allocs, p.size) {
		if done+bad > 0 {
			if err := c.between(ctx, p, done); err != nil {
				return err
			}
		}
		ok, err := c.batch(ctx, p, batch)
		done, bad = done+ok, bad+len(batch)-ok
		if err != nil {
			return kit.Fail(fault.Conflict, "", "%d of %d allocations were restarted, then: %s", done, len(p.allocs),
				err)
		}
	}
	if bad > 0 {
		return kit.Fail(fault.Conflict, `"berth job status `+ref.Typed()+`" shows them`,
			"%d of %d allocations were not restarted", bad, len(p.allocs))
	}
	c.say("All %d allocations were restarted", done)
	return nil
}

func (c *command) say(format string, args ...any) {
	c.env.Out.Printf("%s\n", c.env.Out.Bold("==> "+kit.At(time.Now())+": "+kit.Clean(fmt.Sprintf(format, args...))))
}

func (c *command) tell(format string, args ...any) {
	c.env.Out.Printf("    %s: %s\n", kit.At(time.Now()), kit.Clean(fmt.Sprintf(format, args...)))
}

// check refuses flags that do not go together.
func (c *command) check() error {
	refuse := func(format string, args ...any) error { return kit.Fail(fault.Invalid, "", format, args...) }
	switch h := c.how; {
	case h.reschedule && (h.all || len(c.tasks) > 0):
		return refuse("-reschedule is of whole allocations: leave -task and -all-tasks out")
	case h.all && len(c.tasks) > 0:
		return refuse("-all-tasks and -task do not go together")
	case h.noShutdownDelay && !h.reschedule:
		return refuse("-no-shutdown-delay needs -reschedule: a task that restarts in place has none")
	case c.onError != ask && c.onError != fail:
		return refuse("-on-error must be %q or %q, is %q", ask, fail, c.onError)
	}
	return nil
}

// plan reads what there is to restart.
func (c *command) plan(ctx context.Context, ref kit.Ref) (*plan, error) {
	j, _, err := c.env.Client().Jobs().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "read", "job", ref.ID)
	}
	if kit.Value(j.Stop) {
		return nil, kit.Fail(fault.Invalid, "berth job start "+ref.Typed(), "job %q is stopped", ref.ID)
	}
	if err := c.known(j); err != nil {
		return nil, err
	}
	all, _, err := c.env.Client().Jobs().Allocations(ctx, ref.ID, false, ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "list the allocations of", "job", ref.ID)
	}
	p := &plan{ref: ref, index: kit.Value(j.JobModifyIndex), carries: c.onError == ask}
	for _, a := range all {
		runs := a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun
		if runs && (len(c.groups) == 0 || slices.Contains(c.groups, a.TaskGroup)) && len(c.of(j, a)) > 0 {
			p.allocs = append(p.allocs, a)
		}
	}
	slices.SortFunc(p.allocs, func(a, b *api.AllocationListStub) int { return strings.Compare(a.Name, b.Name) })
	if p.size, err = size(c.batchSize, len(p.allocs)); err != nil {
		return nil, err
	}
	if p.asks = c.batchWait == ask; !p.asks {
		if p.pause, err = time.ParseDuration(c.batchWait); err != nil || p.pause < 0 {
			return nil, kit.Fail(fault.Invalid, "", "-batch-wait must be a duration, as 30s, or %q; is %q", ask,
				c.batchWait)
		}
	}
	return p, nil
}

// known refuses names that nothing of the job has.
func (c *command) known(j *api.Job) error {
	for _, name := range c.groups {
		if !slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool { return g.Name == name }) {
			return kit.Fail(fault.NotFound, "", "job %q has no group %q", kit.Value(j.ID), name)
		}
	}
	for _, name := range c.tasks {
		has := func(t *api.Task) bool { return t.Name == name }
		if !slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
			return (len(c.groups) == 0 || slices.Contains(c.groups, g.Name)) && slices.ContainsFunc(g.Tasks, has)
		}) {
			return kit.Fail(fault.NotFound, "", "job %q has no task %q in these groups", kit.Value(j.ID), name)
		}
	}
	return nil
}

// of are the tasks to restart of an allocation: an empty name stands for all that run.
func (c *command) of(j *api.Job, a *api.AllocationListStub) []string {
	if len(c.tasks) == 0 {
		return []string{""}
	}
	var out []string
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if g.Name == a.TaskGroup && slices.Contains(c.tasks, t.Name) {
				out = append(out, t.Name)
			}
		}
	}
	return out
}

// size is how many allocations are one batch.
func size(text string, all int) (int, error) {
	number, part := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || part && n > 100 {
		return 0, kit.Fail(fault.Invalid, "", "-batch-size must be a number from 1, or a part from 1%% to 100%%, is %q",
			text)
	}
	if part {
		n = max(1, all*n/100)
	}
	return n, nil
}

// between waits before the next batch, as long as a person says.
func (c *command) between(ctx context.Context, p *plan, done int) error {
	if p.asks {
		question := fmt.Sprintf("%d of %d are restarted. Go on?", done, len(p.allocs))
		return c.env.Confirm(c.agreement, question, "give -batch-wait a duration, or -yes")
	}
	if p.pause > 0 {
		c.tell("Waiting %s", p.pause)
		if !retry.Sleep(ctx, p.pause) {
			return ctx.Err()
		}
	}
	return nil
}

// batch restarts some allocations, and says how many were. An error ends the whole.
func (c *command) batch(ctx context.Context, p *plan, batch []*api.AllocationListStub) (done int, err error) {
	j, err := c.still(ctx, p)
	if err != nil {
		return 0, err
	}
	if c.how.reschedule {
		return c.anew(ctx, p, batch)
	}
	asked := map[*api.AllocationListStub]bool{}
	for _, a := range batch {
		err := c.inPlace(ctx, p, j, a)
		if asked[a] = err == nil; err != nil {
			if err := c.carry(p, a, err); err != nil {
				return done, err
			}
		}
	}
	for _, a := range batch {
		if !asked[a] {
			continue
		}
		err := c.runAgain(ctx, p, a)
		if err == nil {
			done++
		} else if err = c.carry(p, a, err); err != nil {
			return done, err
		}
	}
	return done, nil
}

// anew has all of a batch placed anew, and then waits for each.
func (c *command) anew(ctx context.Context, p *plan, batch []*api.AllocationListStub) (done int, err error) {
	evals := map[*api.AllocationListStub]string{}
	for _, a := range batch {
		eval, err := c.stop(ctx, p, a)
		if err = c.carry(p, a, err); err != nil {
			return done, err
		}
		evals[a] = eval
	}
	for _, a := range batch {
		if evals[a] == "" {
			continue
		}
		err := c.replaced(ctx, p, a, evals[a])
		if err == nil {
			done++
		} else if err = c.carry(p, a, err); err != nil {
			return done, err
		}
	}
	return done, nil
}

// carry asks whether to go on after an error.
func (c *command) carry(p *plan, a *api.AllocationListStub, err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("allocation %q: %s", kit.ID(a.ID, c.how.verbose), err)
	if !p.carries || c.env.Confirm(c.agreement, text+". Go on with the others?", "") != nil {
		return kit.Fail(fault.Conflict, "", "%s", text)
	}
	return nil
}

// still reads the job again: it must be what it was, and nobody may be replacing it.
func (c *command) still(ctx context.Context, p *plan) (*api.Job, error) {
	jobs := c.env.Client().Jobs()
	j, _, err := jobs.Get(ctx, p.ref.ID, p.ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "read", "job", p.ref.ID)
	}
	if kit.Value(j.JobModifyIndex) != p.index {
		return nil, kit.Fail(fault.Conflict, "", "job %q was changed meanwhile, to version %d", p.ref.ID,
			kit.Value(j.Version))
	}
	d, _, err := jobs.Deployment(ctx, p.ref.ID, p.ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "read the deployment of", "job", p.ref.ID)
	}
	if d != nil && !follow.DeploymentEnded(d) {
		id := kit.ID(d.ID, c.how.verbose)
		return nil, kit.Fail(fault.Conflict, `"berth deployment status -monitor `+id+`" waits for its end`,
			"deployment %q of job %q is under way", id, p.ref.ID)
	}
	return j, nil
}

// inPlace restarts tasks of an allocation on its node.
func (c *command) inPlace(ctx context.Context, p *plan, j *api.Job, a *api.AllocationListStub) error {
	for _, task := range c.of(j, a) {
		what := "its tasks that run"
		switch {
		case task != "":
			what = fmt.Sprintf("task %q", task)
		case c.how.all:
			what = "all its tasks"
		}
		c.tell("Restarting %s of allocation %q (%s)", what, kit.ID(a.ID, c.how.verbose), a.Name)
		req := &api.AllocRestartRequest{TaskName: task, AllTasks: c.how.all}
		if err := c.env.Client().Allocations().Restart(ctx, a.ID, req, p.ref.Write()); err != nil {
			return err
		}
	}
	return nil
}

// runAgain waits until the tasks of an allocation that ran, and were asked to restart, run anew: the next batch goes
// down only then.
func (c *command) runAgain(ctx context.Context, p *plan, a *api.AllocationListStub) error {
	return follow.Watch(ctx, p.ref.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		now, meta, err := c.env.Client().Allocations().Get(ctx, a.ID, o)
		if err != nil {
			return false, nil, err
		}
		if now.ClientStatus != api.AllocClientStatusRunning && now.ClientStatus != api.AllocClientStatusPending {
			return false, nil, kit.Fail(fault.Conflict, `see "berth alloc status `+kit.ID(a.ID, c.how.verbose)+`"`,
				"it was restarted, and is %s", now.ClientStatus)
		}
		for name, was := range a.TaskStates {
			is := now.TaskStates[name]
			concerned := len(c.tasks) == 0 || slices.Contains(c.tasks, name)
			if was.State != api.TaskStateRunning || !concerned || is == nil {
				continue
			}
			began := kit.Value(is.StartedAt).After(kit.Value(was.StartedAt))
			if !began || is.State == api.TaskStatePending {
				return false, meta, nil
			}
		}
		return true, meta, nil
	})
}

// stop has an allocation placed anew, by the evaluation that it returns.
func (c *command) stop(ctx context.Context, p *plan, a *api.AllocationListStub) (string, error) {
	c.tell("Rescheduling allocation %q (%s)", kit.ID(a.ID, c.how.verbose), a.Name)
	out, _, err := c.env.Client().Allocations().Stop(ctx, a.ID, c.how.noShutdownDelay, p.ref.Write())
	if err != nil {
		return "", err
	}
	return out.EvalID, nil
}

// replaced waits until another allocation runs in the place of one, by the evaluation that its stop made.
func (c *command) replaced(ctx context.Context, p *plan, a *api.AllocationListStub, eval string) error {
	f := follow.New(c.env, c.how.verbose, false)
	var nowhere *kit.Exit
	if _, err := f.Evaluation(ctx, eval, p.ref.Namespace); errors.As(err, &nowhere) {
		return kit.Fail(fault.Exhausted, `see "berth eval status `+kit.ID(eval, c.how.verbose)+`"`,
			"there is no place for another one")
	} else if err != nil {
		return err
	}
	at := a.ID
	err := follow.Watch(ctx, p.ref.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		list, meta, err := c.env.Client().Jobs().Allocations(ctx, p.ref.ID, false, o)
		if err != nil {
			return false, nil, err
		}
		byID := map[string]*api.AllocationListStub{}
		for _, one := range list {
			byID[one.ID] = one
		}
		for byID[at] != nil && byID[at].NextAllocation != "" {
			at = byID[at].NextAllocation
		}
		switch now := byID[at]; {
		case now == nil:
			return false, nil, kit.Fail(fault.NotFound, "", "it is gone, and nothing is in its place")
		case at == a.ID:
			return false, meta, nil // what is in its place waits for it to end
		case now.ClientStatus == api.AllocClientStatusFailed:
			return false, nil, kit.Fail(fault.Conflict, "", "%q in its place has failed", kit.ID(at, c.how.verbose))
		default:
			return now.ClientStatus == api.AllocClientStatusRunning, meta, nil
		}
	})
	if err != nil {
		return err
	}
	c.tell("Allocation %q runs in its place", kit.ID(at, c.how.verbose))
	return nil
}

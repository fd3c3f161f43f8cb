// Package launches owns the commands that have jobs launched which others describe, and what is shown of such jobs.
// Only the commands about jobs import it.
package launches

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/cron"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// maxPayload bounds what is read of the standard input. Servers take less, and say how much there was.
const maxPayload = 1 << 20

// dispatch is "job dispatch".
type dispatch struct {
	env             *kit.Env
	meta            []string
	token, prefix   string
	priority        int
	detach, verbose bool
	wait            bool
}

// Dispatch is the command that launches a parameterized job.
func Dispatch(e *kit.Env) *kit.Command {
	d := &dispatch{env: e}
	cmd := &kit.Command{
		Use:   "dispatch [flags] <job> [file]",
		Short: "Launch a parameterized job with a payload and meta",
		Long: `Launches a job of its own, by what a parameterized job says, and follows it as "berth job run" does. Its
tasks find the file (at most 16 KiB; - is the standard input) where their block dispatch_payload says, and meta in
their environment: -meta key=value is NOMAD_META_key.

Of several dispatches with one -idempotency-token the first launches a job; the others name it, and launch none.`,
		Example: `  berth job dispatch -meta file=a.mp4 encode
  berth job dispatch -detach -idempotency-token order-17 invoice order.json`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error { return d.do(ctx, args) },
	}
	fs := cmd.Flags()
	fs.Var((*kit.Strings)(&d.meta), "meta", "give the job meta: `key=value`; may come again")
	fs.StringVar(&d.token, "idempotency-token", "", "launch nothing if a job was launched with the same `token`")
	fs.StringVar(&d.prefix, "id-prefix-template", "", "a `text` in the id of what is launched")
	fs.IntVar(&d.priority, "priority", 0, "`priority` of what is launched, instead of the job's")
	fs.BoolVar(&d.detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&d.wait, "wait", false, "when not everything can be placed, go on until it is")
	fs.BoolVar(&d.verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

func (d *dispatch) do(ctx context.Context, args []string) error {
	req := &api.JobDispatchRequest{Meta: map[string]string{}, IdPrefixTemplate: d.prefix, Priority: d.priority}
	for _, pair := range d.meta {
		k, v, is := strings.Cut(pair, "=")
		if !is || k == "" {
			return kit.Fail(fault.Invalid, "write it as -meta key=value", "-meta %q gives no key a value", pair)
		}
		req.Meta[k] = v
	}
	if len(args) > 1 {
		var err error
		if req.Payload, _, err = d.env.ReadFile(args[1], "payload", maxPayload); err != nil {
			return err
		}
	}
	ref, err := d.env.Job(ctx, args[0], kit.Change)
	if err != nil {
		return err
	}
	req.JobID = ref.ID
	o := ref.Write()
	if o == nil {
		o = &api.WriteOptions{}
	}
	o.IdempotencyToken = d.token
	out, _, err := d.env.Client().Jobs().Dispatch(ctx, req, o)
	if err != nil {
		return kit.Doing(err, "dispatch", "job", ref.ID)
	}
	if out.EvalID == "" {
		d.env.Out.Printf("Job %q was dispatched with that token before; nothing was launched\n", out.DispatchedJobID)
		return nil
	}
	d.env.Out.Printf("Job %q dispatched\n", out.DispatchedJobID)
	if d.detach {
		d.env.Out.Printf("Evaluation ID: %s\n", out.EvalID)
		return nil
	}
	ref.ID = out.DispatchedJobID
	return follow.New(d.env, d.verbose, d.wait).Job(ctx,
		follow.Registered{
			Ref:            ref,
			JobModifyIndex: out.JobCreateIndex,
			Eval:           out.EvalID,
			EvalIndex:      out.EvalCreateIndex,
		})
}

// Periodic is the noun of what is done to jobs by the clock.
func Periodic(e *kit.Env) *kit.Command {
	return kit.Noun("periodic", "Launch jobs by the clock out of their time", newForce(e))
}

func newForce(e *kit.Env) *kit.Command {
	var detach, verbose bool
	cmd := &kit.Command{
		Use:   "force [flags] <job>",
		Short: "Launch a periodic job now",
		Long: `Launches a periodic job now, whatever of it runs already: prohibit_overlap holds for its times alone.
When it is launched next does not change.`,
		Example: "  berth job periodic force nightly",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			out, _, err := e.Client().Jobs().PeriodicForce(ctx, ref.ID, ref.Write())
			if err != nil {
				return kit.Doing(err, "launch", "job", ref.ID)
			}
			made, _, err := e.Client().Evaluations().Get(ctx, out.EvalID, ref.Query())
			if err != nil {
				return kit.Doing(err, "read what was launched of", "job", ref.ID)
			}
			e.Out.Printf("Job %q launched\n", made.JobID)
			if detach {
				e.Out.Printf("Evaluation ID: %s\n", out.EvalID)
				return nil
			}
			_, err = follow.New(e, verbose, false).Evaluation(ctx, out.EvalID, ref.Namespace)
			return err
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

// Parent reports whether a job launches others, and never runs itself.
func Parent(j *api.Job) bool { return j.Periodic != nil || j.ParameterizedJob != nil && !j.Dispatched }

// NextText is when a periodic job is launched next.
func NextText(j *api.Job) string {
	p := j.Periodic
	if p.Enabled != nil && !*p.Enabled {
		return "none: it is not enabled"
	}
	crons := p.Specs
	if s := kit.Value(p.Spec); s != "" {
		crons = append([]string{s}, crons...)
	}
	times, err := cron.Read(crons, kit.Value(p.TimeZone))
	if err != nil {
		return "unknown: " + err.Error()
	}
	now := time.Now()
	next := times.Next(now)
	if next.IsZero() {
		return "none: its times are over"
	}
	return fmt.Sprintf("%s (in %s)", kit.At(next), next.Sub(now).Round(time.Second))
}

// Next says when a periodic job that was registered is launched.
func Next(j *api.Job) string { return "Next launch: " + NextText(j) }

// Show shows what a job has launched.
func Show(ctx context.Context, e *kit.Env, j *api.Job, sum *api.JobSummary) error {
	id := kit.Value(j.ID)
	if p := j.ParameterizedJob; p != nil {
		e.Out.Section("Parameters")
		var l kit.Pairs
		l.Add("Payload", p.Payload)
		l.Add("Required Meta", or(strings.Join(p.MetaRequired, ", ")))
		l.Add("Optional Meta", or(strings.Join(p.MetaOptional, ", ")))
		e.Out.Pairs(l)
	}
	if c := sum.Children; c != nil {
		e.Out.Section("Children Job Summary")
		e.Out.Table([]string{"Pending", "Running", "Dead"},
			[][]string{{number(c.Pending), number(c.Running), number(c.Dead)}})
	}
	all, _, err := e.Client().Jobs().List(ctx, &api.QueryOptions{Namespace: kit.Value(j.Namespace), Prefix: id + "/"})
	if err != nil {
		return kit.Doing(err, "list what was launched of", "job", id)
	}
	all = slices.DeleteFunc(all, func(c *api.JobListStub) bool { return c.ParentID != id })
	slices.SortStableFunc(all, func(a, b *api.JobListStub) int { return cmp.Compare(b.SubmitTime, a.SubmitTime) })
	e.Out.Section("Launched Jobs")
	var rows [][]string
	for _, c := range all[:min(len(all), maxShown)] {
		rows = append(rows, []string{c.ID, c.Status, kit.AtNanos(c.SubmitTime)})
	}
	if len(rows) == 0 {
		e.Out.Printf("None\n")
		return nil
	}
	e.Out.Table([]string{"ID", "Status", "Launched"}, rows)
	if n := len(all) - maxShown; n > 0 {
		e.Out.Printf("and %d more, which \"berth job status\" lists\n", n)
	}
	if text := HeldUp(j, all); text != "" {
		e.Out.Printf("\n%s\n", text)
	}
	return nil
}

// HeldUp says which of what a periodic job launched keeps its times from being launched, and what ends that; empty:
// nothing does.
func HeldUp(j *api.Job, launched []*api.JobListStub) string {
	if j.Periodic == nil || !kit.Value(j.Periodic.ProhibitOverlap) || kit.Value(j.Stop) {
		return ""
	}
	for _, c := range launched {
		stop := "berth job stop " + ids.Typed(ids.Namespace(kit.Value(j.Namespace)), c.ID)
		switch {
		case c.Periodic || !strings.HasPrefix(c.ID, kit.Value(j.ID)+"/periodic-"):
		case c.Status == api.JobStatusRunning:
			return fmt.Sprintf("Job %q has not ended, so that times are passed over (prohibit_overlap); to end it: %s",
				c.ID, stop)
		case c.Status == api.JobStatusPending:
			return fmt.Sprintf("Job %q is pending: times are passed over while it is to be tried again "+
				"(prohibit_overlap); when it has no place it gives way to the next one; to end it: %s", c.ID, stop)
		}
	}
	return ""
}

// maxShown is how many children are listed, the youngest.
const maxShown = 20

func or(text string) string { return cmp.Or(text, "none") }

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Package scaling owns the commands about the counts of groups: those that give another one, and those about the
// policies that bound them. Package jobs imports it for its verbs, and the root of the command line for its noun.
package scaling

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("scaling", "See how jobs may be scaled",
		kit.Noun("policy", "See the policies that jobs bring for their scaling", newList(e), newInfo(e)))
}

// scale is "job scale".
type scale struct {
	env                   *kit.Env
	detach, wait, verbose bool
	checkIndex            uint64
	message               string
}

// Scale is a verb of jobs.
func Scale(e *kit.Env) *kit.Command {
	s := &scale{env: e}
	cmd := &kit.Command{
		Use:   "scale [flags] <job> [group] <count>",
		Short: "Change how many allocations a group of a job has",
		Long: `Gives a group of a job another count, as a new version of the job, and follows that as "berth job run"
does, with the same exit codes. Without a group the job's only one. The count has to be within the group's scaling
block, if it has one. While a deployment of the job is under way nothing is scaled.`,
		Example: `  berth job scale web 5
  berth job scale web api 5
  berth job scale -check-index 42 web 5     # only if nobody changed it since`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error { return s.do(ctx, args) },
	}
	fs := cmd.Flags()
	fs.Uint64Var(&s.checkIndex, "check-index", 0, "scale it only if its job modify index is `n`")
	fs.StringVar(&s.message, "message", "scaled by hand", "why, for the list of scaling events")
	fs.BoolVar(&s.detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&s.wait, "wait", false, "when not everything can be placed, go on until it is")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

func (s *scale) do(ctx context.Context, args []string) error {
	text := args[len(args)-1]
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < 0 {
		return kit.Fail(fault.Invalid, "", "%q is not a count: it must be a whole number, and not below 0", text)
	}
	ref, err := s.env.Job(ctx, args[0], kit.Change)
	if err != nil {
		return err
	}
	var group string
	if len(args) > 2 {
		group = args[1]
	} else if group, err = s.only(ctx, ref); err != nil {
		return err
	}
	out, _, err := s.env.Client().Jobs().Scale(ctx, ref.ID, &api.ScalingRequest{
		Count:          &count,
		Target:         map[string]string{"Group": group},
		Message:        s.message,
		JobModifyIndex: s.checkIndex,
	}, ref.Write())
	if err != nil {
		return s.refused(ctx, ref, err)
	}
	s.env.Err.Warn(out.Warnings)
	s.env.Out.Printf("Job %q, group %q: count is %d now (job modify index %d)\n", ref.ID, group, count,
		out.JobModifyIndex)
	switch {
	case out.EvalID == "":
		return nil
	case s.detach:
		s.env.Out.Printf("Evaluation ID: %s\n", out.EvalID)
		return nil
	}
	f := follow.New(s.env, s.verbose, s.wait)
	return f.Job(ctx, follow.Registered{
		Ref:            ref,
		JobModifyIndex: out.JobModifyIndex,
		Eval:           out.EvalID,
		EvalIndex:      out.EvalCreateIndex,
	})
}

// refused says what to wait for where a deployment is under way.
func (s *scale) refused(ctx context.Context, ref kit.Ref, err error) error {
	d, _, unread := s.env.Client().Jobs().Deployment(ctx, ref.ID, ref.Query())
	if unread == nil && d != nil && !follow.DeploymentEnded(d) {
		err = fault.WithHint(kit.Doing(err, "scale", "job", ref.ID),
			`"berth deployment status -monitor `+kit.ID(d.ID, false)+`" waits for its end`)
		return err
	}
	return kit.Doing(err, "scale", "job", ref.ID)
}

// only is the one group of a job; of several a person names one.
func (s *scale) only(ctx context.Context, ref kit.Ref) (string, error) {
	j, _, err := s.env.Client().Jobs().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return "", kit.Doing(err, "read", "job", ref.ID)
	}
	if len(j.TaskGroups) == 1 {
		return j.TaskGroups[0].Name, nil
	}
	names := make([]string, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		names[i] = g.Name
	}
	return "", kit.Fail(fault.Invalid, "berth job scale "+ref.Typed()+" <group> <count>",
		"job %q has several groups, name one of them: %s", ref.ID, strings.Join(names, ", "))
}

// Events is a verb of jobs.
func Events(e *kit.Env) *kit.Command {
	var formats kit.Formats
	verbose := false
	cmd := &kit.Command{
		Use:     "scaling-events [flags] <job>",
		Short:   "Show how a job was scaled",
		Example: "  berth job scaling-events web\n  berth job scaling-events -verbose web     # with messages",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Read)
			if err != nil {
				return err
			}
			out, _, err := e.Client().Jobs().ScaleStatus(ctx, ref.ID, ref.Query())
			err = kit.Doing(err, "read the scaling of", "job", ref.ID)
			return formats.Show(e.Out, out, err, func() { showEvents(e, out, verbose) })
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids, messages and evaluations")
	return formats.AddTo(cmd)
}

func showEvents(e *kit.Env, out *api.JobScaleStatusResponse, verbose bool) {
	type line struct {
		group string
		api.ScalingEvent
	}
	var lines []line
	for _, name := range slices.Sorted(maps.Keys(out.TaskGroups)) {
		for _, ev := range out.TaskGroups[name].Events {
			lines = append(lines, line{name, ev})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	header := []string{"Task Group", "Count", "PrevCount", "Date"}
	if verbose {
		header = []string{"Task Group", "Count", "PrevCount", "Error", "Message", "Eval ID", "Date"}
	}
	kit.List(e.Out, lines, "scaling events", header, func(l line) []string {
		count := "-"
		if l.Count != nil {
			count = strconv.FormatInt(*l.Count, 10)
		}
		row := []string{l.group, count, strconv.FormatInt(l.PreviousCount, 10)}
		if verbose {
			row = append(row, strconv.FormatBool(l.Error), l.Message, kit.ID(kit.Value(l.EvalID), true))
		}
		return append(row, kit.AtNanos(int64(l.Time)))
	})
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var id, kind string
	verbose := false
	cmd := &kit.Command{
		Use:   "list [flags]",
		Short: "List the scaling policies",
		Example: `  berth scaling policy list
  berth scaling policy list -job web -namespace '*'`,
		Run: func(ctx context.Context, _ []string) error {
			list, _, err := e.Client().Jobs().Policies(ctx, id, kind, nil)
			return formats.Show(e.Out, list, kit.Doing(err, "list", "scaling policies", ""), func() {
				header := []string{"ID", "Enabled", "Type", "Target"}
				kit.List(e.Out, list, "scaling policies", header, func(p *api.ScalingPolicyListStub) []string {
					return []string{kit.ID(p.ID, verbose), strconv.FormatBool(p.Enabled), p.Type, target(p.Target)}
				})
			})
		},
	}
	cmd.Flags().StringVar(&id, "job", "", "only those of this `job`")
	cmd.Flags().StringVar(&kind, "type", "", "only those of this `type`: horizontal, vertical_cpu or vertical_mem")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return formats.AddTo(cmd)
}

func newInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "info [flags] <policy>",
		Short:   "Show a scaling policy",
		Example: "  berth scaling policy info 31a53813",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.ScalingPolicy(ctx, args[0])
			if err != nil {
				return err
			}
			p, _, err := e.Client().Jobs().Policy(ctx, ref.ID, ref.Query())
			err = kit.Doing(err, "read", "scaling policy", args[0])
			return formats.Show(e.Out, p, err, func() { showPolicy(e, p) })
		},
	}
	return formats.AddTo(cmd)
}

// ShowPolicy shows a policy.
func ShowPolicy(ctx context.Context, e *kit.Env, id string) error {
	ref, err := e.ScalingPolicy(ctx, id)
	if err != nil {
		return err
	}
	p, _, err := e.Client().Jobs().Policy(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "read", "scaling policy", id)
	}
	showPolicy(e, p)
	return nil
}

func showPolicy(e *kit.Env, p *api.ScalingPolicy) {
	var l kit.Pairs
	l.Add("ID", p.ID)
	l.Add("Enabled", strconv.FormatBool(kit.Value(p.Enabled)))
	l.Add("Type", p.Type)
	l.Add("Target", target(p.Target))
	l.Add("Min", strconv.FormatInt(kit.Value(p.Min), 10))
	l.Add("Max", strconv.FormatInt(kit.Value(p.Max), 10))
	e.Out.Pairs(l)
	if len(p.Policy) > 0 {
		e.Out.Section("Policy")
		_ = kit.JSON(e.Out, p.Policy) // it was JSON before
	}
}

// target says what a policy is of, the widest first.
func target(of map[string]string) string {
	var parts []string
	for _, name := range []string{"Namespace", "Job", "Group", "Task"} {
		if v := of[name]; v != "" {
			parts = append(parts, fmt.Sprintf("%s:%s", name, v))
		}
	}
	return strings.Join(parts, ",")
}

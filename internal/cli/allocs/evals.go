package allocs

import (
	"context"
	"strconv"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// EvalNoun returns "eval" with its verbs.
func EvalNoun(e *kit.Env) *kit.Command {
	return kit.Noun("eval", "Look at evaluations, the scheduler's work", newEvalList(e), newEvalStatus(e))
}

// EvalStatus shows an evaluation.
func EvalStatus(ctx context.Context, e *kit.Env, id string) error {
	return (&evalStatus{env: e}).do(ctx, id)
}

func newEvalList(e *kit.Env) *kit.Command {
	var job, status string
	var verbose bool
	var formats kit.Formats
	var page kit.Page
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List evaluations",
		Example: "  berth eval list -job db\n  berth eval list -status blocked",
		Run: func(ctx context.Context, _ []string) error {
			o := page.Query()
			o.Params = map[string]string{"job": job, "status": status}
			list, meta, err := e.Client().Evaluations().List(ctx, o)
			return formats.Show(e.Out, list, page.Doing(err, "evaluations"), func() {
				header := []string{"ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status",
					"Placement Failures"}
				kit.List(e.Out, list, "evaluations", header, func(v *api.Evaluation) []string {
					return []string{kit.ID(v.ID, verbose), strconv.Itoa(v.Priority), v.TriggeredBy, v.JobID,
						v.Namespace,
						kit.ID(v.NodeID, verbose), v.Status, kit.Yes(len(v.FailedTGAllocs) > 0)}
				})
				page.More(e, meta)
			})
		},
	}
	cmd.Flags().StringVar(&job, "job", "", "only those of this `job`")
	cmd.Flags().StringVar(&status, "status", "",
		"only those of this `status`: blocked, pending, complete, failed, canceled")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	page.AddTo(cmd)
	return formats.AddTo(cmd)
}

// evalStatus is "eval status".
type evalStatus struct {
	env              *kit.Env
	monitor, verbose bool
	formats          kit.Formats
}

func newEvalStatus(e *kit.Env) *kit.Command {
	s := &evalStatus{env: e}
	cmd := &kit.Command{
		Use:     "status [flags] <eval>",
		Short:   "Show an evaluation",
		Example: "  berth eval status 5bce5263\n  berth eval status -monitor 5bce5263",
		IDs:     "evals",
		Run:     func(ctx context.Context, args []string) error { return s.do(ctx, args[0]) },
	}
	cmd.Flags().BoolVar(&s.monitor, "monitor", false, "follow it to its end")
	cmd.Flags().BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	return s.formats.AddTo(cmd)
}

func (s *evalStatus) do(ctx context.Context, arg string) error {
	ref, err := s.env.Eval(ctx, arg)
	if err != nil {
		return err
	}
	f := follow.New(s.env, s.verbose, false)
	if s.monitor {
		_, err := f.Evaluation(ctx, ref.ID, ref.Namespace)
		return err
	}
	v, _, err := f.Client.Evaluations().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "read", "evaluation", arg)
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, v)
	}
	allocs, _, err := f.Client.Evaluations().Allocations(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "list the allocations of", "evaluation", arg)
	}
	s.show(v, allocs)
	return nil
}

func (s *evalStatus) show(v *api.Evaluation, allocs []*api.AllocationListStub) {
	var l kit.Pairs
	l.Add("ID", v.ID)
	l.Add("Create Time", kit.When(v.CreateTime, s.verbose))
	l.Add("Modify Time", kit.When(v.ModifyTime, s.verbose))
	l.Add("Status", v.Status)
	l.Add("Status Description", v.StatusDescription)
	l.Add("Type", v.Type)
	l.Add("Triggered By", v.TriggeredBy)
	l.AddIf("Job ID", v.JobID)
	l.Add("Namespace", v.Namespace)
	l.AddIf("Node ID", kit.ID(v.NodeID, s.verbose))
	l.Add("Priority", strconv.Itoa(v.Priority))
	l.Add("Placement Failures", kit.Yes(len(v.FailedTGAllocs) > 0))
	l.AddIf("Previous Eval", kit.ID(v.PreviousEval, s.verbose))
	l.AddIf("Next Eval", kit.ID(v.NextEval, s.verbose))
	l.AddIf("Blocked Eval", kit.ID(v.BlockedEval, s.verbose))
	s.env.Out.Pairs(l)
	if len(v.FailedTGAllocs) > 0 {
		s.env.Out.Section("Failed Placements")
		follow.Explain(s.env.Out, "", v.FailedTGAllocs, v.QueuedAllocations, s.verbose)
	}
	s.env.Out.Section("Allocations")
	kit.List(s.env.Out, allocs, "allocations",
		[]string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"},
		func(a *api.AllocationListStub) []string {
			return []string{kit.ID(a.ID, s.verbose), kit.ID(a.NodeID, s.verbose), a.TaskGroup,
				strconv.FormatUint(a.JobVersion, 10),
				a.DesiredStatus, a.Phase(), kit.When(a.CreateTime, s.verbose), kit.When(a.ModifyTime, s.verbose)}
		})
}

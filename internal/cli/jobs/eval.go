package jobs

import (
	"context"

	"berth/api"
	"berth/internal/cli/kit"
)

func newEval(e *kit.Env) *kit.Command {
	var detach, verbose, force bool
	cmd := &kit.Command{
		Use:     "eval [flags] <job>",
		Short:   "Have the scheduler look at a job again",
		Example: "  berth job eval -force-reschedule db     # place failed allocations now",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			out, _, err := e.Client().Jobs().Evaluate(ctx,
				&api.JobEvaluateRequest{
					JobID:       ref.ID,
					EvalOptions: api.EvalOptions{ForceReschedule: force},
				}, ref.Write())
			if err != nil {
				return kit.Doing(err, "evaluate", "job", ref.ID)
			}
			return followEval(ctx, e, out.EvalID, ref.Namespace, detach, verbose)
		},
	}
	cmd.Flags().BoolVar(&force, "force-reschedule", false, "place failed allocations without waiting for their delay")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

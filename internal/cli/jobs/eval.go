package jobs

import (
	"berth/api"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newEval(e *kit.Env) *cobra.Command {
	var detach, verbose, force bool
	cmd := &cobra.Command{
		Use:               "eval [flags] <job>",
		Short:             "Have the scheduler look at a job again",
		Example:           "  berth job eval -force-reschedule db     # place failed allocations now",
		Args:              kit.Args("job"),
		ValidArgsFunction: completeJobs(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := e.Job(cmd.Context(), args[0], kit.Change)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			out, _, err := c.Jobs().Evaluate(cmd.Context(), &api.JobEvaluateRequest{JobID: ref.ID, EvalOptions: api.EvalOptions{ForceReschedule: force}}, ref.Write())
			if err != nil {
				return kit.Doing(err, "evaluate", "job", ref.ID)
			}
			return followEval(cmd.Context(), e, out.EvalID, ref.Namespace, detach, verbose)
		},
	}
	cmd.Flags().BoolVar(&force, "force-reschedule", false, "place failed allocations without waiting for their delay")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

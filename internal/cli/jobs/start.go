package jobs

import (
	"context"

	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

func newStart(e *kit.Env) *kit.Command {
	var detach, wait, verbose bool
	cmd := &kit.Command{
		Use:   "start [flags] <job>",
		Short: "Run a job again that was stopped",
		Long: `Has a job that was stopped run again as it was, and follows that until it is healthy. One that runs is
only looked at again. Berth's own jobs, too, as the bundled storage plugin; one that was stopped with -purge is
forgotten: it is for "berth job run", and Berth's own come back when their agent starts.`,
		Example: "  berth job start db\n  berth job start -namespace berth local-csi",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			out, _, err := e.Client().Jobs().Start(ctx, ref.ID, ref.Write())
			if err != nil {
				return kit.Doing(err, "start", "job", ref.ID)
			}
			e.Err.Warn(out.Warnings)
			switch {
			case out.Outcome == "unchanged":
				e.Out.Printf("Job %q is not stopped; nothing was changed\n", ref.ID)
			default:
				e.Out.Printf("Job %q started again (job modify index %d)\n", ref.ID, out.JobModifyIndex)
			}
			if out.EvalID == "" {
				return nil
			}
			if detach {
				e.Out.Printf("Evaluation ID: %s\n", out.EvalID)
				return nil
			}
			f := follow.New(e, verbose, wait)
			return f.Job(ctx, follow.Registered{
				Ref:            ref,
				JobModifyIndex: out.JobModifyIndex,
				Eval:           out.EvalID,
				EvalIndex:      out.EvalCreateIndex,
			})
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&wait, "wait", false, "when not everything can be placed, go on until it is")
	fs.BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

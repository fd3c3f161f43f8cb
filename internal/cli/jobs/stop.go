package jobs

import (
	"context"

	"berth/api"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// stop is "job stop".
type stop struct {
	env                                          *kit.Env
	detach, verbose, yes, purge, noShutdownDelay bool
	priority                                     int
}

func newStop(e *kit.Env) *cobra.Command {
	s := &stop{env: e}
	cmd := &cobra.Command{
		Use:   "stop [flags] <job>",
		Short: "Stop a job",
		Long: `Stops a job and follows the evaluation that ends its allocations. They get their kill timeouts; their volumes become
free after that. A job that does not exist is told with exit code 3.`,
		Example:           "  berth job stop db\n  berth job stop -purge db     # forget it, too",
		Args:              kit.Args("job"),
		ValidArgsFunction: completeJobs(e),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.do(cmd.Context(), args[0]) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&s.detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	fs.BoolVarP(&s.yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&s.purge, "purge", false, "forget the job as well")
	fs.BoolVar(&s.noShutdownDelay, "no-shutdown-delay", false, "skip the groups' and tasks' shutdown delays")
	fs.IntVar(&s.priority, "eval-priority", 0, "`priority` of the evaluation instead of the job's")
	return cmd
}

func (s *stop) do(ctx context.Context, arg string) error {
	ref, err := s.env.Job(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	if ref.ID != arg && !s.yes {
		if err := s.env.Confirm("Stop job \""+ref.ID+"\"?", "give the whole id, or -yes"); err != nil {
			return err
		}
	}
	c, err := s.env.Client()
	if err != nil {
		return err
	}
	how := api.JobDeregisterOptions{Purge: s.purge, NoShutdownDelay: s.noShutdownDelay, EvalPriority: s.priority}
	out, _, err := c.Jobs().Deregister(ctx, ref.ID, how, ref.Write())
	if err != nil {
		return kit.Doing(err, "stop", "job", ref.ID)
	}
	if out.EvalID == "" {
		s.env.Out.Printf("Job %q stopped; it had nothing to run\n", ref.ID)
		return nil
	}
	if err := followEval(ctx, s.env, out.EvalID, ref.Namespace, s.detach, s.verbose); err != nil {
		return err
	}
	verb := "stopped"
	if s.purge {
		verb = "stopped and forgotten"
	}
	s.env.Out.Printf("Job %q %s\n", ref.ID, verb)
	return nil
}

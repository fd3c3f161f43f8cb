package jobs

import (
	"context"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// stop is "job stop".
type stop struct {
	env                                     *kit.Env
	detach, verbose, purge, noShutdownDelay bool
	priority                                int
	yes                                     kit.Agreement
}

func newStop(e *kit.Env) *kit.Command {
	s := &stop{env: e}
	cmd := &kit.Command{
		Use:   "stop [flags] <job>",
		Short: "Stop a job",
		Long: `Stops a job and follows that until its tasks have ended, for which they have their kill timeouts, and its
volumes are free. Ctrl-C ends the following, not the stop. Storage that is not free ten seconds after the last task has
ended is reported with exit code 1, with what each volume waits for and how its plugin failed last; it goes on being
released. So is a volume that a silent node may still have.`,
		Example: "  berth job stop db\n  berth job stop -purge db     # forget it, too",
		IDs:     "jobs",
		Run:     func(ctx context.Context, args []string) error { return s.do(ctx, args[0]) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&s.detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids and absolute times")
	fs.BoolVar(&s.purge, "purge", false, "forget the job as well")
	fs.BoolVar(&s.noShutdownDelay, "no-shutdown-delay", false, "skip the groups' and tasks' shutdown delays")
	fs.IntVar(&s.priority, "eval-priority", 0, "`priority` of the evaluation instead of the job's")
	s.yes.AddTo(cmd)
	return cmd
}

func (s *stop) do(ctx context.Context, arg string) error {
	ref, err := s.env.Job(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	if ref.ID != arg {
		err = s.env.Confirm(s.yes, "Stop job \""+ref.ID+"\"?", "give the whole id, or -yes")
		if err != nil {
			return err
		}
	}
	how := api.JobDeregisterOptions{Purge: s.purge, NoShutdownDelay: s.noShutdownDelay, EvalPriority: s.priority}
	out, _, err := s.env.Client().Jobs().Deregister(ctx, ref.ID, how, ref.Write())
	if err != nil {
		return kit.Doing(err, "stop", "job", ref.ID)
	}
	s.env.Err.Warn(out.Warnings)
	if out.EvalID == "" {
		verb := "stopped"
		if s.purge {
			verb = "stopped and forgotten"
		}
		s.env.Out.Printf("Job %q %s: nothing more is launched; what it has launched goes on\n", ref.ID, verb)
		return nil
	}
	if s.detach {
		s.env.Out.Printf("Evaluation ID: %s\nJob %q is stopping\n", out.EvalID, ref.ID)
		return nil
	}
	f := follow.New(s.env, s.verbose, false)
	return f.Stopped(ctx, ref, out.EvalID, s.purge)
}

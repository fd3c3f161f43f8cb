// Package deployments owns the commands about deployments. Only the root of the command line imports it.
package deployments

import (
	"context"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("deployment", "See how updates of jobs come along, and decide about them", newList(e), newStatus(e),
		newPromote(e), newFail(e), newPause(e), newResume(e), newHealth(e))
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	verbose := false
	cmd := &kit.Command{
		Use:   "list [flags]",
		Short: "List the deployments",
		Example: `  berth deployment list
  berth deployment list -filter 'Status == "running"'
  berth deployment list -namespace '*'`,
		Run: func(ctx context.Context, _ []string) error {
			list, meta, err := e.Client().Deployments().List(ctx, page.Query())
			return formats.Show(e.Out, list, page.Doing(err, "deployments"), func() {
				follow.DeploymentTable(e, list, verbose)
				page.More(e, meta)
			})
		},
	}
	page.AddTo(cmd)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return formats.AddTo(cmd)
}

// Status shows a deployment.
func Status(ctx context.Context, e *kit.Env, id string) error { return (&status{env: e}).do(ctx, id) }

// status is "deployment status".
type status struct {
	env              *kit.Env
	monitor, verbose bool
	formats          kit.Formats
}

func newStatus(e *kit.Env) *kit.Command {
	s := &status{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] <deployment>",
		Short: "Show a deployment",
		Long: `Shows how far a deployment has come, group by group. With -monitor it is followed to its end: exit code 0
if it is successful, 1 otherwise.`,
		Example: `  berth deployment status 9277ed84
  berth deployment status -monitor 9277ed84`,
		IDs: "deployment",
		Run: func(ctx context.Context, args []string) error { return s.do(ctx, args[0]) },
	}
	cmd.Flags().BoolVar(&s.monitor, "monitor", false, "follow it to its end")
	cmd.Flags().BoolVar(&s.verbose, "verbose", false, "whole ids, and the allocations")
	return s.formats.AddTo(cmd)
}

func (s *status) do(ctx context.Context, arg string) error {
	ref, err := s.env.Deployment(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	f := follow.New(s.env, s.verbose, false)
	if s.monitor {
		return f.Deployment(ctx, ref.ID, ref.Namespace, api.DeploymentStatusSuccessful)
	}
	d, _, err := f.Client.Deployments().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "read", "deployment", arg)
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, d)
	}
	follow.DeploymentBlock(s.env.Out, d, s.verbose)
	if !s.verbose {
		return nil
	}
	allocs, _, err := f.Client.Deployments().Allocations(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "list the allocations of", "deployment", arg)
	}
	s.env.Out.Section("Allocations")
	follow.AllocTable(s.env, allocs, true)
	return nil
}

func newPromote(e *kit.Env) *kit.Command {
	var groups kit.Strings
	var how how
	cmd := &kit.Command{
		Use:   "promote [flags] <deployment>",
		Short: "Have canaries take the place of the version they are tried against",
		Long: `Promotes the healthy canaries of a deployment: the version of the job that they are of replaces the one
before. Without -group those of all groups. The deployment is then followed to its end.`,
		Example: `  berth deployment promote 9277ed84
  berth deployment promote -group web -group api 9277ed84`,
		IDs: "deployment",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Deployment(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			return follow.New(e, how.verbose, false).Promote(ctx, ref, groups, how.detach)
		},
	}
	cmd.Flags().Var(&groups, "group", "only the canaries of this `group`; may come again")
	return how.addTo(cmd)
}

// how are the flags of what changes a deployment.
type how struct{ detach, verbose bool }

func (h *how) addTo(cmd *kit.Command) *kit.Command {
	cmd.Flags().BoolVar(&h.detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&h.verbose, "verbose", false, "whole ids")
	return cmd
}

func newFail(e *kit.Env) *kit.Command {
	var how how
	cmd := &kit.Command{
		Use:   "fail [flags] <deployment>",
		Short: "End a deployment as failed",
		Long: `Ends a deployment: nothing more is replaced. A job whose group has auto_revert goes back to its last
stable version.`,
		Example: "  berth deployment fail 9277ed84",
		IDs:     "deployment",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Deployment(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			f := follow.New(e, how.verbose, false)
			out, _, err := f.Client.Deployments().Fail(ctx, ref.ID, ref.Write())
			if err != nil {
				return kit.Doing(err, "fail", "deployment", args[0])
			}
			e.Out.Printf("Deployment %q failed by hand\n", kit.ID(ref.ID, how.verbose))
			return f.Changed(ctx, ref, out, how.detach, api.DeploymentStatusFailed)
		},
	}
	return how.addTo(cmd)
}

func newPause(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "pause [flags] <deployment>",
		Short: "Hold a deployment",
		Long: `Holds a deployment: nothing more of it is placed, and its deadlines do not count, until
"berth deployment resume".`,
		Example: "  berth deployment pause 9277ed84",
		IDs:     "deployment",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Deployment(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			if _, _, err = e.Client().Deployments().Pause(ctx, ref.ID, true, ref.Write()); err != nil {
				return kit.Doing(err, "pause", "deployment", args[0])
			}
			e.Out.Printf("Deployment %q paused\n", kit.ID(ref.ID, false))
			return nil
		},
	}
}

func newResume(e *kit.Env) *kit.Command {
	var how how
	cmd := &kit.Command{
		Use:     "resume [flags] <deployment>",
		Short:   "Let a deployment go on that is held",
		Example: "  berth deployment resume 9277ed84",
		IDs:     "deployment",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Deployment(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			f := follow.New(e, how.verbose, false)
			out, _, err := f.Client.Deployments().Pause(ctx, ref.ID, false, ref.Write())
			if err != nil {
				return kit.Doing(err, "resume", "deployment", args[0])
			}
			e.Out.Printf("Deployment %q resumed\n", kit.ID(ref.ID, how.verbose))
			return f.Changed(ctx, ref, out, how.detach, api.DeploymentStatusSuccessful)
		},
	}
	return how.addTo(cmd)
}

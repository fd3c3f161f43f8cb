package jobs

import (
	"context"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
	"berth/internal/cli/tags"
)

func newDeployments(e *kit.Env) *kit.Command {
	var all, latest, verbose bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "deployments [flags] <job>",
		Short:   "List the deployments of a job",
		Example: "  berth job deployments db\n  berth job deployments -latest db",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Read)
			if err != nil {
				return err
			}
			list, _, err := e.Client().Jobs().Deployments(ctx, ref.ID, all, ref.Query())
			err = kit.Doing(err, "list the deployments of", "job", ref.ID)
			if !latest {
				return formats.Show(e.Out, list, err, func() { follow.DeploymentTable(e, list, verbose) })
			}
			if err == nil && len(list) == 0 {
				return noDeployment(ref)
			}
			var newest *api.Deployment
			if len(list) > 0 {
				newest = list[0]
			}
			return formats.Show(e.Out, newest, err, func() { follow.DeploymentBlock(e.Out, newest, verbose) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of earlier jobs of the same id, too")
	cmd.Flags().BoolVar(&latest, "latest", false, "the newest alone, with its groups")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return formats.AddTo(cmd)
}

func noDeployment(ref kit.Ref) error {
	return kit.Fail(fault.NotFound, `"berth job status `+ref.Typed()+`" shows how it stands`,
		"job %q has no deployment", ref.ID)
}

func newPromote(e *kit.Env) *kit.Command {
	var detach, verbose bool
	var groups kit.Strings
	cmd := &kit.Command{
		Use:   "promote [flags] <job>",
		Short: "Promote the canaries of a job",
		Long: `Has the healthy canaries of the newest deployment of a job take the place of the version that they are
tried against, and follows that to its end. Without -group those of all groups.`,
		Example: "  berth job promote db\n  berth job promote -group web db",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			d, _, err := e.Client().Jobs().Deployment(ctx, ref.ID, ref.Query())
			switch {
			case err != nil:
				return kit.Doing(err, "read the deployment of", "job", ref.ID)
			case d == nil:
				return noDeployment(ref)
			}
			of := kit.Ref{ID: d.ID, Namespace: d.Namespace}
			return follow.New(e, verbose, false).Promote(ctx, of, groups, detach)
		},
	}
	cmd.Flags().Var(&groups, "group", "only the canaries of this `group`; may come again")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return cmd
}

func newRevert(e *kit.Env) *kit.Command {
	var detach, wait, verbose bool
	var prior string
	cmd := &kit.Command{
		Use:   "revert [flags] <job> <version>",
		Short: "Have a job go back to an older version",
		Long: `Registers an older version of a job again, as its newest version, and follows that as "berth job run"
does, with the same exit codes. The version is named by its number or by its tag; "berth job history" lists those that
are kept.`,
		Example: "  berth job revert db 3\n  berth job revert db golden\n  berth job revert -check-version 5 db 3     # only if 5 is the present one",
		IDs:     "jobs",
		Run: func(ctx context.Context, args []string) error {
			var only *uint64
			if prior != "" {
				n, err := strconv.ParseUint(prior, 10, 64)
				if err != nil {
					return kit.Fail(fault.Invalid, "", "-check-version %q is not a number", prior)
				}
				only = &n
			}
			ref, err := e.Job(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			version, err := tags.Version(ctx, e, ref, args[1])
			if err != nil {
				return err
			}
			out, _, err := e.Client().Jobs().Revert(ctx, ref.ID, version, only, ref.Write())
			if err != nil {
				return kit.Doing(err, "revert", "job", ref.ID)
			}
			e.Err.Warn(out.Warnings)
			e.Out.Printf("Job %q reverted to version %d (job modify index %d)\n", ref.ID, version, out.JobModifyIndex)
			switch {
			case out.EvalID == "":
				return nil
			case detach:
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
	fs.StringVar(&prior, "check-version", "", "revert it only if its present version is `n`")
	fs.BoolVar(&detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&wait, "wait", false, "when not everything can be placed, go on until it is")
	fs.BoolVar(&verbose, "verbose", false, "whole ids and absolute times")
	return cmd
}

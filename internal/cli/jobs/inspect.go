package jobs

import (
	"context"

	"berth/api"
	"berth/internal/cli/kit"
)

// inspect is "job inspect".
type inspect struct {
	env     *kit.Env
	hcl     bool
	version int64
	formats kit.Formats
}

func newInspect(e *kit.Env) *kit.Command {
	i := &inspect{env: e}
	cmd := &kit.Command{
		Use:     "inspect [flags] <job>",
		Short:   "Print a job as the servers have it",
		Long:    "Prints a job as JSON, with all defaults filled in, or with -hcl the source from which it was run.",
		Example: "  berth job inspect db\n  berth job inspect -hcl -version 2 db",
		IDs:     "jobs",
		Run:     func(ctx context.Context, args []string) error { return i.do(ctx, args[0]) },
	}
	cmd.Flags().BoolVar(&i.hcl, "hcl", false, "print the source")
	cmd.Flags().Int64Var(&i.version, "version", -1, "`number` of the version; the present one by default")
	return i.formats.AddTo(cmd)
}

func (i *inspect) do(ctx context.Context, arg string) error {
	ref, err := i.env.Job(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	job, err := i.job(ctx, ref)
	if err != nil {
		return err
	}
	if i.hcl {
		sub, _, err := i.env.Client().Jobs().Submission(ctx, ref.ID, kit.Value(job.Version), ref.Query())
		if err != nil {
			return kit.Doing(err, "read the source of", "job", ref.ID)
		}
		i.env.Out.Printf("%s", sub.Source)
		return nil
	}
	if i.formats.Wanted() {
		return i.formats.Print(i.env.Out, map[string]any{"Job": job})
	}
	return kit.JSON(i.env.Out, map[string]any{"Job": job})
}

func (i *inspect) job(ctx context.Context, ref kit.Ref) (*api.Job, error) {
	c := i.env.Client()
	if i.version < 0 {
		job, _, err := c.Jobs().Get(ctx, ref.ID, ref.Query())
		return job, kit.Doing(err, "read", "job", ref.ID)
	}
	out, _, err := c.Jobs().Versions(ctx, ref.ID, false, ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "read the versions of", "job", ref.ID)
	}
	at, err := versionAt(out.Versions, ref.ID, i.version)
	if err != nil {
		return nil, err
	}
	return out.Versions[at], nil
}

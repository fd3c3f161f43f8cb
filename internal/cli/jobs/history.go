package jobs

import (
	"context"
	"fmt"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// history is "job history".
type history struct {
	env        *kit.Env
	diff, full bool
	version    int64
	formats    kit.Formats
}

func newHistory(e *kit.Env) *cobra.Command {
	h := &history{env: e}
	cmd := &cobra.Command{
		Use:               "history [flags] <job>",
		Short:             "Show the versions of a job",
		Example:           "  berth job history -p db     # with what changed",
		Args:              kit.Args("job"),
		ValidArgsFunction: completeJobs(e),
		RunE:              func(cmd *cobra.Command, args []string) error { return h.do(cmd.Context(), args[0]) },
	}
	fs := cmd.Flags()
	fs.BoolVarP(&h.diff, "diffs", "p", false, "show what each version changed")
	fs.BoolVar(&h.full, "full", false, "print each version as JSON")
	fs.Int64Var(&h.version, "version", -1, "only the version of this `number`")
	h.formats.AddTo(cmd)
	return cmd
}

func (h *history) do(ctx context.Context, arg string) error {
	ref, err := h.env.Job(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	c, err := h.env.Client()
	if err != nil {
		return err
	}
	out, _, err := c.Jobs().Versions(ctx, ref.ID, h.diff, ref.Query())
	if err != nil {
		return kit.Doing(err, "read the versions of", "job", ref.ID)
	}
	if h.version < 0 {
		if h.formats.Wanted() {
			return h.formats.Print(h.env.Out, out.Versions)
		}
		for i, job := range out.Versions {
			if i > 0 {
				h.env.Out.Printf("\n")
			}
			if err := h.show(job, out.Diffs, i); err != nil {
				return err
			}
		}
		return nil
	}
	for i, job := range out.Versions {
		if kit.Value(job.Version) == uint64(h.version) {
			if h.formats.Wanted() {
				return h.formats.Print(h.env.Out, job)
			}
			return h.show(job, out.Diffs, i)
		}
	}
	return fault.WithHint(fault.New(fault.NotFound, "", "", fmt.Sprintf("job %q has no version %d", ref.ID, h.version)), `"berth job history `+ref.ID+`" lists those that are kept`)
}

func (h *history) show(job *api.Job, diffs []*api.JobDiff, i int) error {
	if h.full {
		return kit.JSON(h.env.Out, job)
	}
	var l kit.Pairs
	l.Add("Version", number(kit.Value(job.Version)))
	l.Add("Stable", fmt.Sprint(kit.Value(job.Stable)))
	l.Add("Submit Date", kit.AtNanos(kit.Value(job.SubmitTime)))
	if t := job.VersionTag; t != nil {
		l.Add("Tag Name", t.Name)
		l.AddIf("Tag Description", t.Description)
	}
	h.env.Out.Pairs(l)
	if h.diff && i < len(diffs) && diffs[i] != nil {
		h.env.Out.Printf("Diff\n")
		d := &diffPrinter{out: h.env.Out}
		d.job(diffs[i])
	}
	return nil
}

package jobs

import (
	"context"
	"fmt"
	"slices"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// history is "job history".
type history struct {
	env        *kit.Env
	diff, full bool
	version    int64
	// each version is compared with the one of this number, or of this name
	against, tag string
	formats      kit.Formats
}

func newHistory(e *kit.Env) *kit.Command {
	h := &history{env: e}
	cmd := &kit.Command{
		Use:   "history [flags] <job>",
		Short: "Show the versions of a job",
		Example: `  berth job history -p db                    # with what each changed
  berth job history -p -diff-version 3 db    # how each differs from version 3
  berth job history -p -version 7 -diff-tag golden db`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error { return h.do(ctx, args[0]) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&h.diff, "diffs", false, "show what each version changed")
	fs.BoolVar(&h.full, "full", false, "print each version as JSON")
	fs.Int64Var(&h.version, "version", -1, "only the version of this `number`")
	fs.StringVar(&h.against, "diff-version", "", "with -p: how each differs from the version of this `number`")
	fs.StringVar(&h.tag, "diff-tag", "", "with -p: how each differs from the version with this `tag`")
	h.formats.AddTo(cmd)
	fs.Letters("p=diffs")
	return cmd
}

func (h *history) do(ctx context.Context, arg string) error {
	ref, err := h.env.Job(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	out, err := h.read(ctx, ref)
	if err != nil {
		return kit.Doing(err, "read the versions of", "job", ref.ID)
	}
	if h.version >= 0 {
		at, err := versionAt(out.Versions, ref.ID, h.version)
		if err != nil {
			return err
		}
		if h.formats.Wanted() {
			return h.formats.Print(h.env.Out, out.Versions[at])
		}
		return h.show(out.Versions[at], out.Diffs, at)
	}
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

// read reads the versions, with what they are compared with.
func (h *history) read(ctx context.Context, ref kit.Ref) (out *api.JobVersionsResponse, err error) {
	jobs := h.env.Client().Jobs()
	switch compares := h.against != "" || h.tag != ""; {
	case compares && !h.diff:
		return nil, kit.Fail(fault.Invalid, "", "-diff-version and -diff-tag need -p, which shows the differences")
	case compares:
		out, _, err = jobs.Compare(ctx, ref.ID, h.against, h.tag, ref.Query())
	default:
		out, _, err = jobs.Versions(ctx, ref.ID, h.diff, ref.Query())
	}
	return out, err
}

// versionAt is where a list has the version of a number.
func versionAt(list []*api.Job, id string, version int64) (int, error) {
	at := slices.IndexFunc(list, func(j *api.Job) bool { return kit.Value(j.Version) == uint64(version) })
	if at < 0 {
		return 0, kit.Fail(fault.NotFound, `"berth job history `+id+`" lists those that are kept`,
			"job %q has no version %d", id, version)
	}
	return at, nil
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

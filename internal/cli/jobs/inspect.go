package jobs

import (
	"context"
	"net/url"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"
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
		Use:   "inspect [flags] <job>",
		Short: "Print a job as the servers have it",
		Long: `Prints a job as JSON, with all defaults filled in, or with -hcl the source from which it was run. The
values that its variables had in that run, by -var, -var-file and the environment, stand in it as their defaults: to go
back to a version, print it and run what is printed.`,
		Example: `  berth job inspect db
  berth job inspect -hcl -version 2 db > older.hcl && berth job run older.hcl`,
		IDs: "jobs",
		Run: func(ctx context.Context, args []string) error { return i.do(ctx, args[0]) },
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
		return i.source(ctx, ref, kit.Value(job.Version))
	}
	if i.formats.Wanted() {
		return i.formats.Print(i.env.Out, map[string]any{"Job": job})
	}
	return kit.JSON(i.env.Out, map[string]any{"Job": job})
}

// source prints what a version was run from. Its values are printed with it: without them it would be another job, on
// another volume for instance.
func (i *inspect) source(ctx context.Context, ref kit.Ref, version uint64) error {
	sub, _, err := i.env.Client().Jobs().Submission(ctx, ref.ID, version, ref.Query())
	if err != nil {
		return kit.Doing(err, "read the source of", "job", ref.ID)
	}
	cfg := jobspec.ParseConfig{Path: ref.ID, Source: []byte(sub.Source), Vars: sub.VariableFlags}
	if sub.Variables != "" {
		cfg.VarFiles = []jobspec.VarFile{{Path: "the values of variables", Source: []byte(sub.Variables)}}
	}
	text, names, err := jobspec.WithValues(cfg)
	if err != nil {
		return kit.Fail(fault.Conflict, `"berth operator api `+submissionPath(ref, version)+`" shows the source, and `+
			"the values to give by -var and -var-file", "version %d of job %q was run with values for variables (%s) "+
			"that cannot be written into its source: %s", version, ref.ID, strings.Join(valueNames(sub), ", "), err)
	}
	i.env.Out.Text(string(text))
	if len(names) > 0 {
		i.env.Err.Notice("The values that version " + number(version) + " was run with are defaults here: " +
			strings.Join(names, ", "))
	}
	return nil
}

func submissionPath(ref kit.Ref, version uint64) string {
	path := "/v1/job/" + url.PathEscape(ref.ID) + "/submission?version=" + number(version)
	if ref.Namespace != "" {
		path += "&namespace=" + url.QueryEscape(ref.Namespace)
	}
	return "'" + path + "'"
}

// valueNames are the variables that a submission has values for, as far as they are known without reading its file.
func valueNames(sub *api.JobSubmission) []string {
	names := sortedKeys(sub.VariableFlags)
	if sub.Variables != "" {
		names = append(names, "those of a file")
	}
	return names
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

package jobs

import (
	"context"
	"errors"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

func newValidate(e *kit.Env) *kit.Command {
	s := source{env: e}
	cmd := &kit.Command{
		Use:   "validate [flags] <file>",
		Short: "Check a job file",
		Long: `Checks a job file here, and has the servers check what only they can know. When no agent can be reached,
a warning says so and the file is judged by what can be checked here.`,
		Example: "  berth job validate db.hcl",
		Run:     func(ctx context.Context, args []string) error { return validate(ctx, e, &s, args[0]) },
	}
	s.addTo(cmd)
	return cmd
}

func validate(ctx context.Context, e *kit.Env, s *source, file string) error {
	p, err := s.read(file)
	if err != nil {
		return err
	}
	id := kit.Value(p.job.ID)
	out, _, err := e.Client().Jobs().Validate(ctx, &api.JobValidateRequest{Job: p.job}, nil)
	var away *api.UnreachableError
	switch {
	case errors.As(err, &away):
		if err := p.unsupported(); err != nil {
			return Problems(e, p.config.Path, err)
		}
		e.Err.Notice("Only the file was checked: " + away.Error())
	case err != nil:
		return p.failed(e, "validate", err)
	case len(out.ValidationErrors) > 0 || out.Error != "":
		if places := p.places(out.Error); places != nil {
			return Problems(e, p.config.Path, places)
		}
		return invalid(e, id, out)
	default:
		e.Err.Warn(out.Warnings)
	}
	e.Out.Printf("Job %q is valid\n", id)
	return nil
}

// invalid says what the servers found.
func invalid(e *kit.Env, id string, out *api.JobValidateResponse) error {
	e.Err.Warn(out.Warnings)
	if n := len(out.ValidationErrors); n > 0 {
		for _, text := range out.ValidationErrors {
			e.Err.Printf("* %s\n", kit.OneSentence(text))
		}
		return kit.Fail(fault.Invalid, "", "job %q is not valid: %s", id, kit.Count(n, "problem", "problems"))
	}
	return kit.Fail(fault.Invalid, "", "job %q is not valid: %s", id, kit.OneSentence(out.Error))
}

package jobs

import (
	"context"
	"errors"
	"fmt"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newValidate(e *kit.Env) *cobra.Command {
	s := source{env: e}
	cmd := &cobra.Command{
		Use:   "validate [flags] <file>",
		Short: "Check a job file",
		Long: `Checks a job file here, and has the servers check what only they can know. When no agent can be reached, that is said
and the file is judged by what can be checked here.`,
		Example: "  berth job validate db.hcl",
		Args:    kit.Args("file"),
		RunE:    func(cmd *cobra.Command, args []string) error { return validate(cmd.Context(), e, &s, args[0]) },
	}
	s.addTo(cmd)
	return cmd
}

func validate(ctx context.Context, e *kit.Env, s *source, file string) error {
	p, err := s.read(file)
	if err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	out, _, err := c.Jobs().Validate(ctx, &api.JobValidateRequest{Job: p.job}, nil)
	var away *api.UnreachableError
	switch {
	case errors.As(err, &away):
		e.Err.Printf("%s\n", e.Err.Yellow("Only the file was checked: "+away.Error()))
	case err != nil:
		return kit.Doing(err, "validate", "job", kit.Value(p.job.ID))
	default:
		e.Err.Warn(out.Warnings)
		if n := len(out.ValidationErrors); n > 0 {
			for _, text := range out.ValidationErrors {
				e.Err.Printf("* %s\n", kit.OneSentence(text))
			}
			return fault.New(fault.Invalid, "", "", fmt.Sprintf("job %q is not valid: %s", kit.Value(p.job.ID), kit.Count(n, "problem", "problems")))
		}
		if out.Error != "" {
			return fault.New(fault.Invalid, "", "", fmt.Sprintf("job %q is not valid: %s", kit.Value(p.job.ID), kit.OneSentence(out.Error)))
		}
	}
	e.Out.Printf("Job %q is valid\n", kit.Value(p.job.ID))
	return nil
}

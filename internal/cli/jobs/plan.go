package jobs

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// exitPlanFailed is the code of a plan that could not be made: 1 means that something would change.
const exitPlanFailed = 255

// plan is "job plan".
type plan struct {
	env           *kit.Env
	source        source
	diff, verbose bool
	jsonOutput    bool
}

func newPlan(e *kit.Env) *kit.Command {
	p := &plan{env: e, source: source{env: e}}
	cmd := &kit.Command{
		Use:   "plan [flags] <file>",
		Short: "Tell what running a job would do",
		Long: `Compares a job file with what runs and tries its placement, without changing anything.

Exit codes: 0, no allocation would be started or stopped; 1, some would; 255, no plan could be made.`,
		Example: "  berth job plan db.hcl",
		Failure: exitPlanFailed,
		Run: func(ctx context.Context, args []string) error {
			changes, err := p.do(ctx, args[0])
			if err == nil && changes {
				return &kit.Exit{Code: 1}
			}
			return err
		},
	}
	p.source.addTo(cmd)
	cmd.Flags().BoolVar(&p.diff, "diff", true, "show what differs")
	cmd.Flags().BoolVar(&p.verbose, "verbose", false, "show what is equal, too")
	cmd.Flags().BoolVar(&p.jsonOutput, "json-output", false, "print the plan as JSON")
	return cmd
}

func (p *plan) do(ctx context.Context, file string) (changes bool, err error) {
	in, err := p.source.read(file)
	if err != nil {
		return false, err
	}
	out, _, err := p.env.Client().Jobs().Plan(ctx, &api.JobPlanRequest{Job: in.job, Diff: p.diff}, nil)
	if err != nil {
		return false, in.failed(p.env, "plan", err)
	}
	changes = changesAllocs(out.Annotations)
	if p.jsonOutput {
		return changes, kit.JSON(p.env.Out, out)
	}
	if p.diff && out.Diff != nil {
		d := &diffPrinter{out: p.env.Out, verbose: p.verbose}
		d.job(out.Diff)
	}
	p.dryRun(out)
	p.env.Err.Warn(out.Warnings)
	p.env.Out.Printf(
		"\nJob Modify Index: %d\nTo run it, provided that nobody changes it before:\n\n  berth job run -check-index "+
			"%d %s\n",
		out.JobModifyIndex, out.JobModifyIndex, p.arguments(file))
	return changes, nil
}

// arguments repeats what a person must give to "job run", too.
func (p *plan) arguments(file string) string {
	text := ""
	for _, v := range p.source.vars {
		text += fmt.Sprintf("-var %q ", v)
	}
	for _, f := range p.source.varFiles {
		text += fmt.Sprintf("-var-file %q ", f)
	}
	return text + file
}

func (p *plan) dryRun(out *api.JobPlanResponse) {
	p.env.Out.Section("Scheduler dry-run:")
	if len(out.FailedTGAllocs) == 0 {
		p.env.Out.Printf("- Everything can be placed\n")
	} else {
		p.env.Out.Printf("- Not everything can be placed:\n")
		follow.Explain(p.env.Out, "  ", out.FailedTGAllocs, nil, p.verbose)
	}
	if n := len(out.NewVolumes); n > 0 {
		p.env.Out.Printf("- It would make %s: %s\n", kit.Count(n, "volume", "volumes"),
			strings.Join(out.NewVolumes, ", "))
	}
	if out.Annotations != nil && len(out.Annotations.PreemptedAllocs) > 0 {
		p.env.Out.Printf("- It would displace %s\n",
			kit.Count(len(out.Annotations.PreemptedAllocs), "allocation", "allocations"))
	}
	if t := out.NextPeriodicLaunch; t != nil && !t.IsZero() {
		p.env.Out.Printf("- It would be launched next at %s\n", kit.At(*t))
	}
}

func changesAllocs(a *api.PlanAnnotations) bool {
	if a == nil {
		return false
	}
	for _, u := range a.DesiredTGUpdates {
		if u != nil && u.Place+u.Migrate+u.Stop+u.DestructiveUpdate+u.Canary > 0 {
			return true
		}
	}
	return false
}

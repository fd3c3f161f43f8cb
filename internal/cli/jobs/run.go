package jobs

import (
	"context"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
	"berth/internal/cli/launches"
)

// run is "job run".
type run struct {
	env                                           *kit.Env
	source                                        source
	detach, verbose, output, wait, preserveCounts bool
	again                                         bool
	checkIndex                                    string
	priority                                      int
}

func newRun(e *kit.Env) *kit.Command {
	r := &run{env: e, source: source{env: e}}
	cmd := &kit.Command{
		Use:   "run [flags] <file>",
		Short: "Run a job, or change one that runs",
		Long: `Registers the job that a file describes and follows it to its end: a service or a system job until every
allocation is healthy, which is when its tasks have run for the group's min_healthy_time (10 s unless the file says
otherwise), and until those that they replace have ended; a batch job until it has completed. A file named - is read
from the standard input. Ctrl-C ends the following, not the job.

A file that says what the job says already starts nothing that has completed, or that has failed for good: -again does.
What still runs is not disturbed, so -again may be run by cron.

Exit codes: 0, all of it is healthy or has completed; 1, something of it is not, with the task, how it ended, the end of
its standard error and the next try; 2, not everything could be placed (the reasons are shown node by node).`,
		Example: `  berth job run db.hcl
  berth job run -var version=7.4 -detach db.hcl
  berth job run -again nightly.hcl         # once more, though nothing in the file has changed
  berth job run -check-index 42 db.hcl     # only if nobody changed it since`,
		Run: func(ctx context.Context, args []string) error { return r.do(ctx, args[0]) },
	}
	fs := cmd.Flags()
	r.source.addTo(cmd)
	fs.BoolVar(&r.again, "again", false, "run what has completed, or has failed for good, once more")
	fs.BoolVar(&r.detach, "detach", false, "do not follow; print the evaluation's id")
	fs.BoolVar(&r.wait, "wait", false, "when not everything can be placed, go on until it is")
	fs.BoolVar(&r.verbose, "verbose", false, "whole ids and absolute times")
	fs.BoolVar(&r.output, "output", false, "print the job as JSON instead of running it")
	fs.StringVar(&r.checkIndex, "check-index", "",
		"run it only if the job's modify index is `n`; 0: only if there is no such job")
	fs.BoolVar(&r.preserveCounts, "preserve-counts", false, "keep the counts of the groups that run")
	fs.IntVar(&r.priority, "eval-priority", 0, "`priority` of the evaluation instead of the job's")
	return cmd
}

func (r *run) do(ctx context.Context, file string) error {
	p, err := r.source.read(file)
	if err != nil {
		return err
	}
	req := &api.JobRegisterRequest{
		Job:            p.job,
		Submission:     p.submission,
		PreserveCounts: r.preserveCounts,
		EvalPriority:   r.priority,
		Again:          r.again,
	}
	if r.checkIndex != "" {
		req.EnforceIndex = true
		if req.JobModifyIndex, err = strconv.ParseUint(r.checkIndex, 10, 64); err != nil {
			return kit.Fail(fault.Invalid, "", "-check-index %q is not a number; \"berth job plan\" prints it",
				r.checkIndex)
		}
	}
	if r.output {
		return kit.JSON(r.env.Out, map[string]any{"Job": p.job})
	}
	f := follow.New(r.env, r.verbose, r.wait)
	out, _, err := f.Client.Jobs().Register(ctx, req, nil)
	if err != nil {
		return p.failed(r.env, "run", err)
	}
	r.env.Err.Warn(out.Warnings)
	return r.report(ctx, f, p.job, out)
}

// report says what came of it and follows it.
func (r *run) report(ctx context.Context, f *follow.Follower, job *api.Job, out *api.JobRegisterResponse) error {
	id := kit.Value(job.ID)
	outcome := out.Outcome
	if outcome == "" {
		outcome = "registered"
	}
	r.env.Out.Printf("Job %q %s (job modify index %d)\n", id, outcome, out.JobModifyIndex)
	switch {
	case out.EvalID == "" && job.Periodic != nil:
		r.env.Out.Printf("%s\n", launches.Next(job))
		return nil
	case out.EvalID == "" && job.ParameterizedJob != nil:
		r.env.Out.Printf("It runs when it is dispatched: berth job dispatch %s\n", id)
		return nil
	case out.EvalID == "":
		r.env.Out.Printf("There is nothing to run now\n")
		return nil
	case r.detach:
		r.env.Out.Printf("Evaluation ID: %s\n", out.EvalID)
		return nil
	}
	ref := kit.Ref{ID: id, Namespace: kit.Value(job.Namespace)}
	if f.Client.Config().Namespace != "" {
		ref.Namespace = "" // the flag beats the file
	}
	return f.Job(ctx, follow.Registered{
		Ref:            ref,
		JobModifyIndex: out.JobModifyIndex,
		Eval:           out.EvalID,
		EvalIndex:      out.EvalCreateIndex,
	})
}

// followEval follows an evaluation without its allocations, or prints its id.
func followEval(ctx context.Context, e *kit.Env, id, ns string, detach, verbose bool) error {
	if id == "" {
		return nil
	}
	if detach {
		e.Out.Printf("Evaluation ID: %s\n", id)
		return nil
	}
	f := follow.New(e, verbose, false)
	_, err := f.Evaluation(ctx, id, ns)
	return err
}

func number[T ~uint64 | ~int64 | ~int](n T) string { return strconv.FormatInt(int64(n), 10) }

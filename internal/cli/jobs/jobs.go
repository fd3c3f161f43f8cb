// Package jobs owns the commands about jobs and job files: run, plan, validate, status, inspect, stop, start, allocs,
// history, eval, revert, promote, deployments and fmt, and the place of those about launches, scaling, tags and
// restarts. Only the root of the command line imports it.
package jobs

import (
	"context"

	"berth/internal/cli/kit"
	"berth/internal/cli/launches"
	"berth/internal/cli/restart"
	"berth/internal/cli/scaling"
	"berth/internal/cli/tags"
)

// Noun returns "job" with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("job", "Run jobs and look at them", newRun(e), newPlan(e), newValidate(e), newStatus(e),
		newInspect(e), newStop(e), newStart(e), newAllocs(e), newHistory(e), newEval(e), newRevert(e), newPromote(e),
		newDeployments(e), scaling.Scale(e), scaling.Events(e), tags.Noun(e), restart.Command(e), launches.Dispatch(e),
		launches.Periodic(e))
}

// Shortcuts are the verbs that need no noun. status is left to the root, which searches all kinds.
func Shortcuts(e *kit.Env) []*kit.Command {
	return []*kit.Command{newRun(e), newPlan(e), newStop(e), newValidate(e), newInspect(e), newFmt(e)}
}

// Status shows one job, or all of them when id is empty.
func Status(ctx context.Context, e *kit.Env, id string) error {
	s := &status{env: e}
	if id == "" {
		return s.list(ctx)
	}
	return s.show(ctx, id)
}

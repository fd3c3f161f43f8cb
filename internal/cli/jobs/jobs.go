// Package jobs owns the commands about jobs and job files: run, plan, validate, status, inspect, stop, start, allocs,
// history, eval and fmt. Only the root of the command line imports it.
package jobs

import (
	"context"
	"slices"

	"berth/api"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// Noun returns "job" with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("job", "Run jobs and look at them", newRun(e), newPlan(e), newValidate(e), newStatus(e),
		newInspect(e), newStop(e), newStart(e), newAllocs(e), newHistory(e), newEval(e))
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

// allocTable is the table of allocations that several commands show.
func allocTable(e *kit.Env, list []*api.AllocationListStub, verbose bool) {
	header := []string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Health", "Created", "Modified"}
	if verbose {
		header = slices.Concat([]string{"ID", "Eval ID", "Node ID", "Node Name"}, header[2:])
	}
	kit.List(e.Out, list, "allocations", header, func(a *api.AllocationListStub) []string {
		row := []string{kit.ID(a.ID, verbose), kit.ID(a.NodeID, verbose)}
		if verbose {
			row = []string{a.ID, a.EvalID, a.NodeID, a.NodeName}
		}
		return append(row, a.TaskGroup, number(a.JobVersion), a.DesiredStatus, a.Phase(), rollout.Health(a),
			kit.When(a.CreateTime, verbose), kit.When(a.ModifyTime, verbose))
	})
}

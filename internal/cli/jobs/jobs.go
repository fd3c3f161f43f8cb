// Package jobs owns the commands about jobs and job files: run, plan, validate, status, inspect, stop, allocs, history,
// eval and fmt. Only the root of the command line imports it.
package jobs

import (
	"context"

	"berth/api"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// Noun returns "job" with its verbs.
func Noun(e *kit.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Run jobs and look at them"}
	cmd.AddCommand(newRun(e), newPlan(e), newValidate(e), newStatus(e), newInspect(e), newStop(e), newAllocs(e), newHistory(e), newEval(e))
	return cmd
}

// Shortcuts are the verbs that need no noun. status is left to the root, which searches all kinds.
func Shortcuts(e *kit.Env) []*cobra.Command {
	return []*cobra.Command{newRun(e), newPlan(e), newStop(e), newValidate(e), newInspect(e), newFmt(e)}
}

// Status shows one job, or all of them when id is empty.
func Status(ctx context.Context, e *kit.Env, id string) error {
	s := &status{env: e}
	if id == "" {
		return s.list(ctx)
	}
	return s.show(ctx, id)
}

// completeJobs offers the ids of jobs to the shell.
func completeJobs(e *kit.Env) cobra.CompletionFunc { return e.Complete("jobs") }

// allocHeader and allocRows are the table of allocations that several commands show.
func allocHeader(verbose bool) []string {
	if verbose {
		return []string{"ID", "Eval ID", "Node ID", "Node Name", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}
	}
	return []string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}
}

func allocRows(list []*api.AllocationListStub, verbose bool) [][]string {
	rows := make([][]string, 0, len(list))
	for _, a := range list {
		row := []string{kit.ID(a.ID, verbose)}
		if verbose {
			row = append(row, a.EvalID)
		}
		row = append(row, kit.ID(a.NodeID, verbose))
		if verbose {
			row = append(row, a.NodeName)
		}
		rows = append(rows, append(row, a.TaskGroup, number(a.JobVersion), a.DesiredStatus, a.ClientStatus,
			kit.When(a.CreateTime, verbose), kit.When(a.ModifyTime, verbose)))
	}
	return rows
}

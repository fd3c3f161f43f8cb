package follow

import (
	"slices"
	"strconv"

	"berth/api"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// AllocTable is the table of allocations that several commands show.
func AllocTable(e *kit.Env, list []*api.AllocationListStub, verbose bool) {
	header := []string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Health", "Created", "Modified"}
	if verbose {
		header = slices.Concat([]string{"ID", "Eval ID", "Node ID", "Node Name"}, header[2:])
	}
	kit.List(e.Out, list, "allocations", header, func(a *api.AllocationListStub) []string {
		row := []string{kit.ID(a.ID, verbose), kit.ID(a.NodeID, verbose)}
		if verbose {
			row = []string{a.ID, a.EvalID, a.NodeID, a.NodeName}
		}
		return append(row, a.TaskGroup, strconv.FormatUint(a.JobVersion, 10), a.DesiredStatus, a.Phase(),
			rollout.Health(a), kit.When(a.CreateTime, verbose), kit.When(a.ModifyTime, verbose))
	})
}

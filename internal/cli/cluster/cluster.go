// Package cluster owns the commands about agents, servers, nodes and namespaces. Only the root of the command line
// imports it.
package cluster

import (
	"slices"

	"berth/internal/cli/authority"
	"berth/internal/cli/backup"
	"berth/internal/cli/denials"
	"berth/internal/cli/joining"
	"berth/internal/cli/kit"
	"berth/internal/cli/nodes"
	"berth/internal/cli/partitions"
	"berth/internal/cli/rootkeys"
	"berth/internal/cli/servers"
)

// Commands returns the nouns, and the verbs that have none.
func Commands(e *kit.Env, ids Identities, dirs DataDirs) []*kit.Command {
	return []*kit.Command{
		kit.Noun("node", "Look at nodes and act on them", append(slices.Concat(denials.Verbs(e), nodes.Verbs(e)),
			newNodeStatus(e), newEligibility(e), newOrphans(e), newNodeReplace(e), newRebootConfirm(e), newReadmit(e),
			newIdentity(e, ids), newUnknownMount(e), partitions.NodePools(e))...),
		servers.Noun(e),
		kit.Noun("system", "Chores of the whole cluster", newGC(e)),
		partitions.Namespaces(e),
		kit.Noun("operator", "Tools for operators", newAPI(e), newRecovery(e), newSnapshot(e), rootkeys.Noun(e),
			servers.Raft(e), servers.Autopilot(e), authority.Noun(e), joining.Noun(e), newCheckData(e, dirs),
			newForgetVolumes(e, dirs), backup.Noun(e, dirs)),
		newAgentInfo(e),
		newMonitor(e),
		newVersion(e),
	}
}

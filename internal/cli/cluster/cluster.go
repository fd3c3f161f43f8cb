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

// NodeNoun is "node".
func NodeNoun(e *kit.Env, ids Identities) *kit.Command {
	return kit.Noun("node", "Look at nodes and act on them", append(slices.Concat(denials.Verbs(e), nodes.Verbs(e)),
		newNodeStatus(e), newEligibility(e), newOrphans(e), newNodeReplace(e), newRebootConfirm(e), newReadmit(e),
		newIdentity(e, ids), newUnknownMount(e), partitions.NodePools(e))...)
}

// SystemNoun is "system".
func SystemNoun(e *kit.Env) *kit.Command {
	return kit.Noun("system", "Chores of the whole cluster", newGC(e))
}

// OperatorNoun is "operator".
func OperatorNoun(e *kit.Env, dirs DataDirs) *kit.Command {
	return kit.Noun("operator", "Tools for operators", newAPI(e), newRecovery(e), newSnapshot(e), rootkeys.Noun(e),
		servers.Raft(e), servers.Autopilot(e), authority.Noun(e), joining.Noun(e), newCheckData(e, dirs),
		newForgetVolumes(e, dirs), backup.Noun(e, dirs))
}

// Verbs are those that have no noun.
func Verbs(e *kit.Env) []*kit.Command {
	return []*kit.Command{newAgentInfo(e), newMonitor(e), newVersion(e)}
}

// Package cluster owns the commands about agents, servers, nodes and namespaces. Only the root of the command line imports
// it.
package cluster

import (
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// Commands returns the nouns, and the verbs that have none.
func Commands(e *kit.Env) []*cobra.Command {
	node := &cobra.Command{Use: "node", Short: "Look at nodes and act on them"}
	node.AddCommand(newNodeStatus(e), newEligibility(e))
	server := &cobra.Command{Use: "server", Short: "Look at servers"}
	server.AddCommand(newMembers(e))
	system := &cobra.Command{Use: "system", Short: "Chores of the whole cluster"}
	system.AddCommand(newGC(e))
	namespace := &cobra.Command{Use: "namespace", Short: "Look at namespaces"}
	namespace.AddCommand(newNamespaceList(e), newNamespaceStatus(e))
	acl := &cobra.Command{Use: "acl", Short: "Access control"}
	acl.AddCommand(newBootstrap(e))
	operator := &cobra.Command{Use: "operator", Short: "Tools for operators"}
	operator.AddCommand(newAPI(e))
	return []*cobra.Command{node, server, system, namespace, acl, operator, newAgentInfo(e), newMonitor(e), newVersion(e)}
}

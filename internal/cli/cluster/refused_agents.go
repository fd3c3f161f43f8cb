package cluster

import (
	"berth/api"
	"berth/internal/cli/kit"
)

// refusedAgents tells who else shows the node's identity.
func (s *nodeStatus) refusedAgents(n *api.Node) {
	if len(n.RefusedAgents) == 0 {
		return
	}
	s.env.Out.Section("Refused Agents")
	for _, a := range n.RefusedAgents {
		s.env.Out.Notice(a.Reason + " (" + a.Hint + ")")
	}
	kit.List(s.env.Out, n.RefusedAgents, "refused agents",
		[]string{"Address", "Since", "Last Try", "Obeyed", "Obeyed Since"},
		func(a *api.NodeRefusedAgent) []string {
			return []string{a.Address, kit.At(a.Since), kit.At(a.LastTry), a.ObeyedAddress, kit.At(a.ObeyedSince)}
		})
}

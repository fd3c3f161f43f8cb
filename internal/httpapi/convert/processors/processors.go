// Package processors owns how the cores of a node look in the public shape. Only package convert imports it.
package processors

import (
	"slices"

	"berth/api"
	"berth/internal/model/cores"
	"berth/internal/model/node"
)

// OfNode adds to what a node has which of its cores can be given away whole, and how they are arranged.
func OfNode(out *api.NodeResources, n *node.Node) {
	all, kept := n.Resources.Cores, n.Reserved.Kept
	out.Cpu.ReservableCpuCores = cores.Without(all, kept)
	if len(all) == 0 {
		return
	}
	t := &api.NodeTopology{}
	for _, c := range all {
		if !slices.Contains(t.Nodes, c.Memory) {
			t.Nodes = append(t.Nodes, c.Memory)
		}
		t.Cores = append(t.Cores, api.NodeCore{
			ID:        int(c.ID),
			SocketID:  c.Socket,
			NodeID:    c.Memory,
			Grade:     !c.Efficient,
			Disable:   slices.Contains(kept, c.ID),
			BaseSpeed: c.BaseMHz,
			MaxSpeed:  c.MaxMHz,
		})
	}
	slices.Sort(t.Nodes)
	out.Processors.Topology = t
}

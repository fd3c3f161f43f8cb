package convert

import (
	"maps"
	"slices"

	"berth/api"
	"berth/internal/model/node"
)

// The pools that every cluster has. Each node is in one pool, and in the pool of all.
const (
	AllPool     = "all"
	DefaultPool = "default"
)

// PoolOf is the pool that a node or a job names.
func PoolOf(name string) string {
	if name == "" {
		return DefaultPool
	}
	return name
}

// NodePools lists, by name, the pools that every cluster has and those that nodes name.
func NodePools(nodes []*node.Node) []*api.NodePool {
	pools := map[string]*api.NodePool{
		AllPool: {
			Name:        AllPool,
			Description: "Node pool with all nodes in the cluster.",
			CreateIndex: 1,
			ModifyIndex: 1,
		},
		DefaultPool: {Name: DefaultPool, Description: "Default node pool.", CreateIndex: 1, ModifyIndex: 1},
	}
	for _, n := range nodes {
		name := PoolOf(n.NodePool)
		if pools[name] == nil {
			pools[name] = &api.NodePool{
				Name:        name,
				Description: "Named by the configuration of nodes.",
				CreateIndex: n.CreateIndex,
				ModifyIndex: n.CreateIndex,
			}
		}
	}
	list := make([]*api.NodePool, 0, len(pools))
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		list = append(list, pools[name])
	}
	return list
}

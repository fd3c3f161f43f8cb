package httpapi

import (
	"slices"

	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// poolPaths begin the paths of node pools. They have a mux of their own: to the other, /v1/node/pool/x and the paths of
// a node, such as /v1/node/x/allocations, would be equally good for /v1/node/pool/allocations.
const poolPaths = "/v1/node/pool/"

// nodesOf leaves the nodes of the pool that the path names; a path without a pool leaves all.
func nodesOf(r *request, all []*node.Node) []*node.Node {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(n *node.Node) bool {
		return pool != "" && pool != partition.AllPool && pool != node.PoolOf(n.NodePool)
	})
}

// jobsOf leaves the jobs that ask for the pool that the path names.
func jobsOf(r *request, all []*wire.JobView) []*wire.JobView {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(v *wire.JobView) bool {
		return pool != "" && pool != node.PoolOf(v.Job.NodePool)
	})
}

package httpapi

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/calls"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// poolPaths begin the paths of node pools. They have a mux of their own: to the other, /v1/node/pool/x and the paths of
// a node, such as /v1/node/x/allocations, would be equally good for /v1/node/pool/allocations.
const poolPaths = "/v1/node/pool/"

// nodesOf leaves the nodes of the pool that the path names; a path without a pool leaves all.
func nodesOf(r *calls.Request, all []*node.Node) []*node.Node {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(n *node.Node) bool {
		return pool != "" && pool != partition.AllPool && pool != node.PoolOf(n.NodePool)
	})
}

// jobsOf leaves the jobs that ask for the pool that the path names.
func jobsOf(r *calls.Request, all []*wire.JobView) []*wire.JobView {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(v *wire.JobView) bool {
		return pool != "" && pool != node.PoolOf(v.Job.NodePool)
	})
}

// about has the record name what a body says that a request is about.
func about[Req any](
	ask func(*calls.Request) (*Req, error), of func(*Req) (ids.Namespace, string),
) func(*calls.Request) (*Req, error) {
	return func(r *calls.Request) (*Req, error) {
		req, err := ask(r)
		if err == nil {
			audit.Of(r.Context()).About(of(req))
		}
		return req, err
	}
}

func ofNamespace(r *wire.NamespacePutRequest) (ids.Namespace, string) {
	return r.Namespace.Name, string(r.Namespace.Name)
}

func ofNodePool(r *wire.NodePoolPutRequest) (ids.Namespace, string) { return "", r.Pool.Name }

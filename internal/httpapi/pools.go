package httpapi

import (
	"slices"
	"strings"

	"berth/api"
	"berth/internal/httpapi/callers"
	"berth/internal/httpapi/convert"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// poolPaths begin the paths of node pools. They have a mux of their own: to the other, /v1/node/pool/x and the paths of
// a node, such as /v1/node/x/allocations, would be equally good for /v1/node/pool/allocations.
const poolPaths = "/v1/node/pool/"

var poolList = read(wire.NodeList, (*request).derived, func(r *request, out *wire.List[*node.Node]) (any, error) {
	pools := slices.DeleteFunc(convert.NodePools(out.Items), func(p *api.NodePool) bool {
		return !strings.HasPrefix(p.Name, r.arg("prefix")) ||
			callers.Permit(r.Context(), r.server.cfg.Servers, callers.PoolNeeds(p.Name)...) != nil
	})
	return table[*api.NodePool]{
		key: func(p *api.NodePool) string { return p.Name },
		row: func(p *api.NodePool) any { return p },
	}.show(r, pools, "")
})

var poolGet = read(wire.NodeList, (*request).whole, func(r *request, out *wire.List[*node.Node]) (any, error) {
	for _, p := range convert.NodePools(out.Items) {
		if p.Name == r.PathValue("pool") {
			return p, nil
		}
	}
	return nil, missing("node pool not found")
})

// nodesOf leaves the nodes of the pool that the path names; a path without a pool leaves all.
func nodesOf(r *request, all []*node.Node) []*node.Node {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(n *node.Node) bool {
		return pool != "" && pool != convert.AllPool && pool != convert.PoolOf(n.NodePool)
	})
}

// jobsOf leaves the jobs that ask for the pool that the path names.
func jobsOf(r *request, all []*wire.JobView) []*wire.JobView {
	pool := r.PathValue("pool")
	return slices.DeleteFunc(all, func(v *wire.JobView) bool {
		return pool != "" && pool != convert.PoolOf(v.Job.NodePool)
	})
}

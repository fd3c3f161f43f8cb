package filter

import (
	"fmt"
	"path"
	"strings"

	"berth/internal/model/node"
)

// Ready passes nodes that take new allocs. It is not counted in metrics: such nodes are no candidates at all.
type Ready struct{}

// Prepare implements Filter.
func (Ready) Prepare(*Request) bool { return true }

// Check implements Filter.
func (Ready) Check(n *node.Node) string {
	if n.Ready() {
		return ""
	}
	return "node not ready"
}

// Explain implements Filter.
func (Ready) Explain(n *node.Node) (string, string) {
	switch {
	case n.Status != node.StatusReady:
		return "the node is " + n.Status, "start or reconnect its agent"
	case n.Unfollowed != "":
		return n.Unfollowed, "see what they are with: berth node orphans list"
	}
	return "the node is not eligible for new allocs", "berth node eligibility -enable " + string(n.ID)
}

// PoolKey is what Pool answers with for a node of another pool.
const PoolKey = "node pool"

// Pool passes the nodes of the job's pool. A node without a pool is in "default"; the pool "all" holds every node.
type Pool struct{ want string }

// Prepare implements Filter.
func (p *Pool) Prepare(r *Request) bool {
	p.want = node.PoolOf(r.Job.NodePool)
	return p.want != "all"
}

// Check implements Filter.
func (p *Pool) Check(n *node.Node) string {
	if node.PoolOf(n.NodePool) == p.want {
		return ""
	}
	return PoolKey
}

// Explain implements Filter.
func (p *Pool) Explain(n *node.Node) (string, string) {
	return fmt.Sprintf("the node is in pool %q, the job asks for %q", node.PoolOf(n.NodePool), p.want),
		"change node_pool in the job or the node's configuration"
}

// Datacenters passes the nodes whose datacenter matches one of the job's globs.
type Datacenters struct {
	globs []string
	known map[string]bool
}

// Prepare implements Filter.
func (d *Datacenters) Prepare(r *Request) bool {
	d.globs, d.known = r.Job.Datacenters, map[string]bool{}
	return len(d.globs) > 0
}

// Check implements Filter.
func (d *Datacenters) Check(n *node.Node) string {
	ok, seen := d.known[n.Datacenter]
	if !seen {
		for _, g := range d.globs {
			if m, err := path.Match(g, n.Datacenter); err == nil && m || g == n.Datacenter {
				ok = true
				break
			}
		}
		d.known[n.Datacenter] = ok
	}
	if ok {
		return ""
	}
	return "datacenter"
}

// Explain implements Filter.
func (d *Datacenters) Explain(n *node.Node) (string, string) {
	return fmt.Sprintf("the node is in datacenter %q, the job asks for %s", n.Datacenter, strings.Join(d.globs, ", ")),
		"change datacenters in the job or the node's configuration"
}

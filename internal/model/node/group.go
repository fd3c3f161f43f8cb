package node

// Group are the nodes of one pool and one datacenter that take new allocs, or those of them that take none.
type Group struct {
	Pool       string // never empty: see PoolOf
	Datacenter string
	Ready      bool
}

// GroupSize is a group with nodes.
type GroupSize struct {
	Group
	Nodes int
}

// Group says which group the node is in.
func (n *Node) Group() Group {
	return Group{Pool: PoolOf(n.NodePool), Datacenter: n.Datacenter, Ready: n.Ready()}
}

// PoolOf names a pool: who names none is in "default".
func PoolOf(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

package api

import "time"

// CA is what the certificates between agents are believed by (Berth's own, like all that follows).
type CA struct {
	// Roots are those that are trusted, the present one first; none: the cluster has no authority yet.
	Roots []*CARoot
	// Unaware are the nodes that have not shown yet that they know the present root, while there is one before it.
	Unaware []*CANode
}

// CARoot is a root of the cluster.
type CARoot struct {
	KeyID   string // a hash of its public key, as join tokens carry it
	Created time.Time
	By      string // who had it replace another one
	// Until is when it is forgotten; nil: it is the present one.
	Until *time.Time `json:",omitempty"`
}

// CANode is a node.
type CANode struct {
	NodeID    string
	Name      string
	Forgotten bool // it was purged or collected, and may come back as itself
}

// CAFinishRequest has the roots before the present one forgotten before their time.
type CAFinishRequest struct {
	// Force: also where nodes have not shown that they know the present one; each of these needs a join token then.
	Force  bool
	Reason string // it is recorded; Force needs one
}

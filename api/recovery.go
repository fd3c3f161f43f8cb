package api

import "time"

// RecoveryStatus is what the servers wait for before they trust a state that was restored, and what a person can do
// (Berth's own, like all that follows).
type RecoveryStatus struct {
	// State is "none", "evidence" (a node shows that the state is older than the world), "recovering" or "ended".
	State        string
	Cause        string
	By           string
	Parent       string // incarnation that was left
	Incarnation  string
	Begun        *time.Time
	Ended        *time.Time
	ListComplete bool // no node is missing in Nodes: the state that was replaced was read, or a person said so
	Nodes        []*RecoveryNode
	Evidence     []*RecoveryEvidence
	Suspended    []*RecoverySuspended
	Held         []*RecoveryHeld
	Exits        []string // what a person can do
}

// RecoveryNode is a node that may hold something that the servers do not know.
type RecoveryNode struct {
	ID     string
	Name   string
	State  string // "reported", "dead" or "awaited"
	Detail string
	Exit   string // what ends the wait
}

// RecoveryEvidence is what a node has seen of the servers that their state does not contain.
type RecoveryEvidence struct {
	NodeID    string
	Name      string
	Relation  string
	SeenMark  string
	SeenIndex uint64
	Time      time.Time
}

// RecoverySuspended was asked for before the restore, and waits until a person asks for it again.
type RecoverySuspended struct {
	Kind   string // "volume" or "snapshot"
	ID     string
	Phase  string
	Resume string
}

// RecoveryHeld is an allocation of a batch job that may have ended since the state was saved: it is not begun again by
// itself.
type RecoveryHeld struct {
	AllocID   string
	Namespace string
	JobID     string
	Resume    string
}

// RecoveryRequest is a person's word about the servers' state, or about one node.
type RecoveryRequest struct {
	NodeID string
	Reason string
}

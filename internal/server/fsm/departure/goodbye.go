package departure

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
)

// Goodbye says that the agent of a session ends for good while its node holds nothing: nobody waits for its silence.
type Goodbye struct {
	Node    ids.Node
	Session string
}

// Releases lets it through when the disk is nearly full.
func (c *Goodbye) Releases() bool { return true }

// Apply returns whether the node is down by it.
func (c *Goodbye) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	left, err := (&sessions.Leave{Node: c.Node, Session: c.Session}).Apply(tx, st)
	old := tx.Node(nil, c.Node)
	if err != nil || left != true || old == nil || old.Status == node.StatusDown {
		return false, err
	}
	for a := range tx.AllocsByNode(nil, c.Node) {
		if !a.ClientTerminal() {
			return false, nil // it was placed a moment ago: it is lost when the node is silent
		}
	}
	n := *old
	n.Status, n.StatusDescription = node.StatusDown, "its agent has left"
	n.StatusUpdatedAt = st.Time.Unix()
	n.Events = append(slices.Clone(n.Events), node.Event{
		Message:     "Node left",
		Subsystem:   "Cluster",
		Timestamp:   st.Time,
		CreateIndex: st.Index,
	})
	tx.PutNode(&n)
	fsm.PromoteQueued(tx, st)
	return true, nil
}

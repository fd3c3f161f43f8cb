package joining

import (
	"cmp"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
)

// DenialSchema is the number of the cluster from which on nodes can be denied.
const DenialSchema = 9

func init() {
	fsm.Register[Deny]("node-deny", DenialSchema, "server/endpoint/joining")
	fsm.Register[Allow]("node-allow", DenialSchema, "server/endpoint/joining")
}

// Known is the member of a name, if there is one and the state lets it in by a key. A key that is denied under one id
// is denied under every other.
func Known(s *state.Snap, role trust.Role, id string, key trust.KeyID) (*trust.Member, error) {
	for m := range s.Denied(nil, key) {
		return nil, m.Accepts(key)
	}
	m := s.Member(nil, role, id)
	if m == nil {
		return nil, nil
	}
	return m, m.Accepts(key)
}

// Denied says why a state refuses what a node asks for; nil: it does not. The watch sees when it does.
func Denied(s *state.Snap, w *state.Watch, id ids.Node) error {
	if m := s.Member(w, trust.Node, string(id)); m != nil && m.Denied != nil {
		return m.Accepts(m.Key)
	}
	return nil
}

// Refuses tells whether a state lets nobody in who has shown a certificate: by its id, and by its key under any id.
func Refuses(s *state.Snap, who trust.Peer) bool {
	for range s.Denied(nil, who.Key) {
		return true
	}
	m := s.Member(nil, who.Role, who.ID)
	return m != nil && m.Denied != nil
}

// Deny lets a node in no more: by its id, and by its key.
type Deny struct {
	Node       ids.Node
	By, Reason string
}

// Apply returns the *trust.Member.
func (c *Deny) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	m, err := node(tx, c.Node)
	switch {
	case err != nil:
		return nil, fault.Note(err, "deny", "")
	case m.Denied != nil: // it was denied, and the answer was lost
		return m, nil
	}
	now := *m
	now.Denied = &trust.Denial{Since: st.Time, By: c.By, Reason: c.Reason}
	if n := tx.Node(nil, c.Node); n != nil {
		now.Denied.Name = n.Name
	}
	tx.PutMember(&now)
	sessions.Tell(tx, st, c.Node, "The node is denied, said "+cmp.Or(c.By, "a person")+": "+c.Reason)
	return &now, nil
}

// Releases is true: it takes something away.
func (c *Deny) Releases() bool { return true }

// Allow lets a node in again.
type Allow struct {
	Node       ids.Node
	By, Reason string
}

// Apply returns the *trust.Member.
func (c *Allow) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	m, err := node(tx, c.Node)
	switch {
	case err != nil:
		return nil, fault.Note(err, "allow", "")
	case m.Denied == nil:
		return nil, fault.New(fault.NotFound, "allow", fmt.Sprintf("node %q", c.Node), "it is not denied")
	}
	since := m.Denied.Since
	now := *m
	now.Denied = nil
	tx.PutMember(&now)
	sessions.Tell(tx, st, c.Node, "The node is let in again after it was denied on "+
		since.UTC().Format(time.RFC3339)+", said "+cmp.Or(c.By, "a person")+": "+c.Reason)
	return &now, nil
}

// node is the member that a node of an id is.
func node(tx *state.Tx, id ids.Node) (*trust.Member, error) {
	if m := tx.Member(nil, trust.Node, string(id)); m != nil {
		return m, nil
	}
	if tx.Node(nil, id) != nil {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "find", fmt.Sprintf("node %q", id),
				"it has no certificate: it runs in the agent of a server"),
			"remove that server: berth server force-leave NAME")
	}
	return nil, fault.New(fault.NotFound, "find", fmt.Sprintf("node %q", id), "no node of that id has joined")
}

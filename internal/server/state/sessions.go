package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// Sessions names the table of the newest agent start of each node.
const Sessions = "sessions"

var sessions = &table[node.Session]{
	name:     Sessions,
	key:      func(s *node.Session) Key { return KeyOf(s.Node) },
	stamp:    stamping(func(o *node.Session) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(s *node.Session) uint64 { return s.ModifyIndex },
}

// Session returns the newest agent start of a node that was accepted in this incarnation, or nil.
func (s *Snap) Session(w *Watch, id ids.Node) *node.Session {
	out := sessions.get(s, w, KeyOf(id))
	if m := s.Meta(nil); out == nil || m == nil || out.Incarnation != m.Incarnation {
		return nil
	}
	return out
}

// PutSession stores the newest agent start of a node.
func (tx *Tx) PutSession(s *node.Session) {
	s.Incarnation = tx.Meta(nil).Incarnation
	sessions.put(tx, s)
}

// Departure returns what is kept of a node that was forgotten, in whichever incarnation, or nil.
func (s *Snap) Departure(id ids.Node) *node.Departure {
	if out := sessions.get(s, nil, KeyOf(id)); out != nil {
		return out.Departed
	}
	return nil
}

// AllSessions yields the newest agent starts of all nodes, in whichever incarnation, by node.
func (s *Snap) AllSessions() iter.Seq[*node.Session] { return sessions.scan(s, nil, "") }

// DropSession forgets which agent start of a node was the newest.
func (tx *Tx) DropSession(id ids.Node) bool { return sessions.drop(tx, KeyOf(id)) }

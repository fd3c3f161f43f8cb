package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// Sessions names the table of the newest agent start of each node.
const Sessions = "sessions"

var sessions = &table[node.Session]{
	name: Sessions,
	key:  func(s *node.Session) Key { return KeyOf(s.Node) },
	stamp: func(now, old *node.Session, index uint64) {
		now.CreateIndex, now.ModifyIndex = index, index
		if old != nil {
			now.CreateIndex = old.CreateIndex
		}
	},
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

// Sessions yields the newest agent starts of this incarnation, by node.
func (s *Snap) Sessions(w *Watch) iter.Seq[*node.Session] {
	m := s.Meta(nil)
	return func(yield func(*node.Session) bool) {
		for out := range sessions.scan(s, w, "") {
			if m != nil && out.Incarnation == m.Incarnation && !yield(out) {
				return
			}
		}
	}
}

// DeleteSession forgets the agent starts of a node.
func (tx *Tx) DeleteSession(id ids.Node) { sessions.drop(tx, KeyOf(id)) }

// PutSession stores the newest agent start of a node.
func (tx *Tx) PutSession(s *node.Session) {
	s.Incarnation = tx.Meta(nil).Incarnation
	sessions.put(tx, s)
}

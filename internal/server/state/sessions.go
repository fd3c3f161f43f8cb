package state

import (
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

// PutSession stores the newest agent start of a node.
func (tx *Tx) PutSession(s *node.Session) {
	s.Incarnation = tx.Meta(nil).Incarnation
	sessions.put(tx, s)
}

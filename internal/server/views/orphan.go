package views

import (
	"berth/internal/base/ids"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// Orphaned says that a node keeps an alloc as an orphan, why, and what a person can do; empty: it does not.
func Orphaned(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) string {
	n := s.Node(w, on)
	if n == nil {
		return ""
	}
	for i := range n.Orphans {
		if o := &n.Orphans[i]; o.Alloc == id {
			return "node " + ids.Short(on) + " keeps allocation " + ids.Short(id) + " as an orphan: " + o.Reason +
				" (" + suspension.Adopt(s, w, on, id) + ", or " + suspension.End(id) + ")"
		}
	}
	return ""
}

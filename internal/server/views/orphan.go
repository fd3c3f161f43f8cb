package views

import (
	"berth/internal/base/ids"
	"berth/internal/server/state"
)

// Orphaned says that a node keeps an alloc as an orphan, why, and what a person can do; empty: it does not.
func Orphaned(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) string {
	n := s.Node(w, on)
	if n == nil {
		return ""
	}
	for i := range n.Orphans {
		if o := &n.Orphans[i]; o.Alloc == id {
			short := ids.Short(id)
			adopt := "berth node orphans adopt " + short
			if j := s.Job(w, o.Namespace, o.Job); j != nil && j.Stop { // its own id would be refused
				adopt = "berth node orphans adopt -as NEWID " + short
			}
			return "node " + ids.Short(on) + " keeps allocation " + short + " as an orphan: " + o.Reason +
				" (" + adopt + ", or berth node orphans end " + short + ")"
		}
	}
	return ""
}

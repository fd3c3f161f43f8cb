package suspension

import (
	"berth/internal/base/ids"
	"berth/internal/server/state"
)

// Adopt and End are the commands by which a person decides about an alloc that a node has, and nobody decides about.
// One whose job is stopped is adopted under another id: its own would be refused.
func Adopt(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) string {
	if stopped(s, w, on, id) {
		return "berth node orphans adopt -as NEWID " + ids.Short(id)
	}
	return "berth node orphans adopt " + ids.Short(id)
}

// End: see Adopt.
func End(id ids.Alloc) string { return "berth node orphans end " + ids.Short(id) }

// stopped reports an alloc whose job is known, and stopped.
func stopped(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) bool {
	namespace, name := ids.Namespace(""), ids.Job("")
	if a := s.Alloc(w, id); a != nil {
		namespace, name = a.Namespace, a.Job
	}
	if n := s.Node(w, on); n != nil {
		for i := range n.Orphans {
			if o := &n.Orphans[i]; o.Alloc == id && o.Job != "" {
				namespace, name = o.Namespace, o.Job
			}
		}
	}
	j := s.Job(w, namespace, name)
	return j != nil && j.Stop
}

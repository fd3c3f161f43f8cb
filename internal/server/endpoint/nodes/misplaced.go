package nodes

import (
	"log/slog"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/seldom"
	"berth/internal/model/alloc"
	"berth/internal/server/state"
)

// misplaced says that a node reports allocs of other nodes.
type misplaced struct{ seldom seldom.Log }

// leftOut are a node's reports but those of allocs that are placed on another one: no agent has one to tell of, so that
// who does is not the agent that it seems to be, or has the records of another. It is not refused, because what else
// the report has is as good as ever.
func (m *misplaced) leftOut(log *slog.Logger, s *state.Snap, on ids.Node, reported []*alloc.Alloc) []*alloc.Alloc {
	return slices.DeleteFunc(reported, func(a *alloc.Alloc) bool {
		known := s.Alloc(nil, a.ID)
		if known == nil || known.Node == on {
			return false
		}
		if missed, say := m.seldom.Say(); say {
			log.Warn("a node reports an allocation that is placed on another node; that is left out: the machine may "+
				"be in other hands", logkey.Node, on, logkey.Alloc, a.ID, "status", a.ClientStatus,
				"placed_on", known.Node, "not_said_before", missed,
				"hint", "keep it out with: berth node deny -reason TEXT NODE")
		}
		return true
	})
}

package volumes

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// learnWait bounds how long a write waits for the servers to hear what a plugin can do.
const learnWait = 2 * time.Second

// Learned returns a state in which it is known what the plugin can do, if that is about to be known: a node reports a
// healthy instance a moment before the servers record its capabilities, and who saw the report must be able to go on.
func Learned(ctx context.Context, store *state.Store, id ids.Plugin) *state.Snap {
	wctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := store.Snapshot()
		if rec := s.Plugin(w, id); rec != nil && rec.Negotiated || !healthyInstance(s, w, id) || w.Wait(wctx) != nil {
			return s
		}
	}
}

func healthyInstance(s *state.Snap, w *state.Watch, id ids.Plugin) bool {
	for _, i := range instances.Of(s, w, id) {
		if i.Healthy() {
			return true
		}
	}
	return false
}

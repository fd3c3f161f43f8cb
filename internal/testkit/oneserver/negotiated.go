package oneserver

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/server"
	"berth/internal/server/state"
)

// AwaitNegotiated waits until it is recorded what a plugin can do: an instance of it may be shown healthy before.
func AwaitNegotiated(t testing.TB, s *server.Server, id ids.Plugin) {
	t.Helper()
	for {
		w := state.NewWatch()
		if p := s.Store().Snapshot().Plugin(w, id); p != nil && p.Negotiated {
			return
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

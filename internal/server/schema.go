package server

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/server/state"
)

// watchSchema ends a server whose program is older than what the cluster's state may hold by now: what it does not know
// of the state it would lose, and its replica would differ from those of the others.
func watchSchema(ctx context.Context, store *state.Store, knows uint64) error {
	for {
		s, w := store.Snapshot(), state.NewWatch()
		if m := s.Meta(w); m != nil && m.Schema > knows {
			return fault.WithHint(
				fault.New(fault.Conflict, "run", "this server", fmt.Sprintf("the cluster's state is at schema %d, and "+
					"this version of Berth knows %d: the servers were upgraded", m.Schema, knows)),
				"run the version of the others, or a newer one; to go back to an older one, restore a state that was "+
					"saved under it into new servers")
		}
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

package server

import (
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
)

// Replayed is what a server that starts would make of its directory.
type Replayed struct {
	Index  uint64 // of the last entry
	State  *state.Snap
	Sealed int // how many entries are sealed
	// Unopened are those that the server's key does not open. Without a key nothing is tried.
	Unopened []error
}

// Replay makes the state anew from what lies in the data directory of a server that does not run, and tells what cannot
// be applied, and what of it the server's key does not open. It changes nothing.
func Replay(dataDir string) (Replayed, error) {
	store := state.New()
	m := fsm.New(store)
	last, err := raftlog.Replay(filepath.Join(dataDir, "raft"), m)
	if err != nil {
		return Replayed{}, err
	}
	out := Replayed{Index: last, State: store.Snapshot()}
	if err := m.Halted(); err != nil {
		return out, fault.WithHint(err, "a newer Berth may have written it: run that version; nothing was changed")
	}
	ring, err := keyring.Open(filepath.Join(dataDir, "keyring"))
	if err != nil {
		return out, nil // the key is checked for itself
	}
	if err := ring.Fits(out.State); err != nil {
		return out, err
	}
	out.Unopened, out.Sealed = ring.Unopened(out.State)
	return out, nil
}

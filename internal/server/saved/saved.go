// Package saved owns by which rule the servers take a saved state: whole, of a version that they read, and sealed with
// the key that they have. A restore asks it, and the check of a state that waits for one; the servers and the agent
// import it.
package saved

import (
	"bytes"
	"io"

	"berth/internal/base/fault"
	"berth/internal/base/savefile"
	"berth/internal/server/state"
)

// Secrets tries what a saved state has sealed: bad is what cannot be opened.
type Secrets interface {
	Unopened(s *state.Snap) (bad []error, all int)
}

// Load reads a saved state, and makes sure that servers with that key can use it. Without secrets nothing is tried: the
// key is refused for itself. Whoever is to use the state has its data keys wrapped for them before; nil: they are.
func Load(r io.Reader, secrets Secrets, rewrap func(*state.Store) error) (*state.Store, savefile.Meta, error) {
	meta, data, err := savefile.Decode(r)
	if err != nil {
		return nil, meta, err
	}
	store := state.New()
	if err := store.Restore(bytes.NewReader(data)); err != nil {
		return nil, meta, fault.WithHint(fault.Wrap(err, fault.Unsupported, "restore", "the servers' state"),
			"a newer Berth may have saved it; run that version")
	}
	s := store.Snapshot()
	if s.Meta(nil) == nil {
		return nil, meta, fault.New(fault.Invalid, "restore", "the servers' state", "the saved state is empty")
	}
	if rewrap != nil {
		if err := rewrap(store); err != nil {
			return nil, meta, err
		}
	}
	if secrets == nil {
		return store, meta, nil
	}
	if bad, _ := secrets.Unopened(store.Snapshot()); len(bad) > 0 {
		return nil, meta, fault.WithHint(
			fault.New(fault.Denied, "restore", "the servers' state",
				"the secrets in the saved state were sealed with another key than this server has"),
			"give a recovery key of that cluster: \"berth operator snapshot restore -recovery-key-file KEY FILE\"; or end "+
				"the agent, move its server directory away, put the root.key of that cluster into server/keyring, and "+
				"start it")
	}
	return store, meta, nil
}

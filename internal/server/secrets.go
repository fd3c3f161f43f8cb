package server

import (
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// secretStore opens and seals entries of the secret store: ciphertext in the state, the key in the keyring.
type secretStore struct {
	keyring *keyring.Keyring
	store   *state.Store
}

// Seal implements storage.Secrets.
func (s secretStore) Seal(name string, m redact.Map) ([]byte, error) {
	return s.keyring.Seal(s.store.Snapshot(), name, m)
}

// Open implements variables.Secrets.
func (s secretStore) Open(snap *state.Snap, name string, sealed []byte) (redact.Map, error) {
	return s.keyring.Open(snap, name, sealed)
}

// Secrets implements controllers.Secrets.
func (s secretStore) Secrets(name string) (wire.Secrets, error) {
	if name == "" {
		return wire.Secrets{}, nil
	}
	snap := s.store.Snapshot()
	e := snap.Secret(nil, name)
	if e == nil {
		return wire.Secrets{},
			fault.WithHint(fault.New(fault.NotFound, "open secret", `"`+name+`"`, "it is not in the store"),
				"register the volume again with its secrets")
	}
	m, err := s.keyring.Open(snap, name, e.Data)
	if err != nil {
		return wire.Secrets{}, err
	}
	return wire.Seal(m), nil
}

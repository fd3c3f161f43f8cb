package server

import (
	"berth/internal/base/fault"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// secretStore opens and seals entries of the secret store: ciphertext in the state, the key in the keyring.
type secretStore struct {
	*keyring.Keyring
	store *state.Store
}

// Secrets implements controllers.Secrets.
func (s secretStore) Secrets(name string) (wire.Secrets, error) {
	if name == "" {
		return wire.Secrets{}, nil
	}
	e := s.store.Snapshot().Secret(nil, name)
	if e == nil {
		return wire.Secrets{},
			fault.WithHint(fault.New(fault.NotFound, "open secret", `"`+name+`"`, "it is not in the store"),
				"register the volume again with its secrets")
	}
	m, err := s.Open(name, e.Data)
	if err != nil {
		return wire.Secrets{}, err
	}
	return wire.Seal(m), nil
}

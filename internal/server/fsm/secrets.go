package fsm

import (
	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/server/state"
)

func init() { Register[SecretPut]("secret-put", 1, "server/endpoint") }

// SecretPut stores sealed bytes under a name. What is sealed in them only the keyring can read.
type SecretPut struct {
	Name string
	Data []byte
}

// Apply returns nil.
func (c *SecretPut) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if err := Sealable(tx, c.Data); err != nil {
		return nil, err
	}
	tx.PutSecret(&state.Sealed{Name: c.Name, Data: c.Data})
	return nil, nil
}

// Sealable refuses bytes that were sealed with a data key that was given up between that and now: nobody could open
// them once it is gone.
func Sealable(tx *state.Tx, sealed []byte) error {
	id, _, ok := datakey.Split(sealed)
	if !ok || id == "" {
		return nil // from before there were data keys
	}
	if k := tx.DataKey(nil, id); k != nil && k.State != datakey.Deprecated {
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, "store", "a secret", "data key "+id+" was given up meanwhile"),
		"try again: it is sealed with the present one")
}

package keys

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// SchemaRSA is the number of the cluster from which on signing keys have an RSA pair.
const SchemaRSA = 15

func init() { fsm.Register[RSAPut]("signing-key-rsa-put", SchemaRSA, "server/keyring") }

// RSAPut gives a signing key its RSA pair. One that has a pair keeps it.
type RSAPut struct {
	ID     string
	RSA    []byte // modulus
	Sealed []byte // all private parts of the key, in the place of what was sealed
	Seen   uint64 // ModifyIndex of the key whose other parts those are
}

// Apply returns the *state.SigningKey that holds.
func (c *RSAPut) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	k := tx.SigningKey(nil, c.ID)
	switch {
	case k == nil:
		return nil, fault.New(fault.NotReady, "sign", "identities", fmt.Sprintf("the key %s was removed meanwhile",
			c.ID))
	case len(k.RSA) > 0:
		return k, nil
	case k.ModifyIndex != c.Seen:
		return nil, fault.New(fault.NotReady, "sign", "identities", fmt.Sprintf("the key %s was sealed anew meanwhile",
			c.ID))
	}
	with := *k
	with.RSA, with.Sealed = c.RSA, c.Sealed
	tx.PutSigningKey(&with)
	return &with, nil
}

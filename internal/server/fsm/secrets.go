package fsm

import "berth/internal/server/state"

func init() {
	register[SecretPut]("secret-put", 1, "server/volumes")
	register[SecretDelete]("secret-delete", 1, "server/volumes")
}

// SecretPut stores sealed bytes under a name. What is sealed in them only the keyring can read.
type SecretPut struct {
	Name string
	Data []byte
}

// Apply returns nil.
func (c *SecretPut) Apply(tx *state.Tx, _ Stamp) (any, error) {
	tx.PutSecret(&state.Sealed{Name: c.Name, Data: c.Data})
	return nil, nil
}

// SecretDelete forgets an entry; a missing one is no error.
type SecretDelete struct{ Name string }

// Apply returns whether the entry was there.
func (c *SecretDelete) Apply(tx *state.Tx, _ Stamp) (any, error) {
	return tx.DeleteSecret(c.Name), nil
}

package fsm

import "berth/internal/server/state"

func init() { Register[SecretPut]("secret-put", 1, "server/endpoint") }

// SecretPut stores sealed bytes under a name. What is sealed in them only the keyring can read.
type SecretPut struct {
	Name string
	Data []byte
}

// Apply returns nil.
func (c *SecretPut) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if err := tx.Sealable(c.Data); err != nil {
		return nil, err
	}
	tx.PutSecret(&state.Sealed{Name: c.Name, Data: c.Data})
	return nil, nil
}

package keys

import (
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() { fsm.Register[SigningKeyPut]("signing-key-put", 1, "server/keyring") }

// SigningKeyPut gives the cluster the key that it signs with. One that has a key keeps it.
type SigningKeyPut struct {
	ID        string
	Algorithm string
	Public    []byte
	Sealed    []byte // the private part; only the keyring can open it
}

// Apply returns the *state.SigningKey that holds.
func (c *SigningKeyPut) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	for k := range tx.SigningKeys(nil) {
		return k, nil
	}
	k := &state.SigningKey{
		ID:        c.ID,
		Algorithm: c.Algorithm,
		Public:    c.Public,
		Sealed:    c.Sealed,
		Created:   st.Time,
	}
	tx.PutSigningKey(k)
	return k, nil
}

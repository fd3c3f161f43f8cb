package state

import (
	"iter"
)

// SigningKeys names the table of the keys that the cluster signs with.
const SigningKeys = "signing-keys"

var signingKeys = &table[SigningKey]{
	name:     SigningKeys,
	key:      func(k *SigningKey) Key { return KeyOf(k.ID) },
	stamp:    stamping(func(o *SigningKey) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(k *SigningKey) uint64 { return k.ModifyIndex },
}

// SigningKey returns a signing key, or nil.
func (s *Snap) SigningKey(w *Watch, id string) *SigningKey { return signingKeys.get(s, w, KeyOf(id)) }

// SigningKeys yields all signing keys, by id.
func (s *Snap) SigningKeys(w *Watch) iter.Seq[*SigningKey] { return signingKeys.scan(s, w, "") }

// PutSigningKey stores a signing key.
func (tx *Tx) PutSigningKey(k *SigningKey) { signingKeys.put(tx, k) }

// DeleteSigningKey forgets a signing key.
func (tx *Tx) DeleteSigningKey(id string) bool { return signingKeys.drop(tx, KeyOf(id)) }

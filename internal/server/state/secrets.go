package state

import "iter"

// Secrets names the table of sealed secrets.
const Secrets = "secrets"

var secrets = &table[Sealed]{
	name:     Secrets,
	key:      func(e *Sealed) Key { return KeyOf(e.Name) },
	stamp:    stamping(func(o *Sealed) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(e *Sealed) uint64 { return e.ModifyIndex },
}

// Secret returns a sealed entry by name, or nil.
func (s *Snap) Secret(w *Watch, name string) *Sealed { return secrets.get(s, w, KeyOf(name)) }

// Secrets yields all sealed entries, by name.
func (s *Snap) Secrets(w *Watch) iter.Seq[*Sealed] { return secrets.scan(s, w, "") }

// SecretsUnder yields those whose names begin so.
func (s *Snap) SecretsUnder(prefix string) iter.Seq[*Sealed] {
	return secrets.scan(s, nil, Key(prefix))
}

// PutSecret stores a sealed entry.
func (tx *Tx) PutSecret(e *Sealed) { secrets.put(tx, e) }

// DeleteSecret forgets a sealed entry.
func (tx *Tx) DeleteSecret(name string) bool { return secrets.drop(tx, KeyOf(name)) }

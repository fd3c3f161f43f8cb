package state

import (
	"iter"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
)

// DataKeys names the table of the keys that secrets are sealed with.
const DataKeys = "data-keys"

var dataKeys = &table[datakey.Key]{
	name:     DataKeys,
	key:      func(k *datakey.Key) Key { return KeyOf(k.ID) },
	stamp:    stamping(func(o *datakey.Key) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(k *datakey.Key) uint64 { return k.ModifyIndex },
}

// DataKey returns a data key, or nil.
func (s *Snap) DataKey(w *Watch, id string) *datakey.Key { return dataKeys.get(s, w, KeyOf(id)) }

// DataKeys yields all data keys, by id.
func (s *Snap) DataKeys(w *Watch) iter.Seq[*datakey.Key] { return dataKeys.scan(s, w, "") }

// ActiveDataKey returns the one that is sealed with now, or nil.
func (s *Snap) ActiveDataKey(w *Watch) *datakey.Key {
	for k := range s.DataKeys(w) {
		if k.State == datakey.Active {
			return k
		}
	}
	return nil
}

// PutDataKey stores a data key.
func (tx *Tx) PutDataKey(k *datakey.Key) { dataKeys.put(tx, k) }

// DeleteDataKey forgets a data key.
func (tx *Tx) DeleteDataKey(id string) bool { return dataKeys.drop(tx, KeyOf(id)) }

// Sealable refuses bytes that were sealed with a data key that was given up between that and now: nobody could open
// them once it is gone.
func (s *Snap) Sealable(sealed []byte) error {
	id, _, ok := datakey.Split(sealed)
	if !ok || id == "" {
		return nil // from before there were data keys
	}
	if k := s.DataKey(nil, id); k != nil && k.State != datakey.Deprecated {
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, "store", "a secret", "data key "+id+" was given up meanwhile"),
		"try again: it is sealed with the present one")
}

package keys

import (
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() {
	fsm.Register[Reseal]("reseal", Schema, "server/keyring")
	fsm.Register[Remove]("data-key-remove", Schema, "server/keyring")
}

// What is sealed in a state.
const (
	Secret     = "secret"
	SigningKey = "signing key"
	Authority  = "authority"
)

// Entry is something sealed, as it was seen: one that has changed since stays as it is.
type Entry struct {
	Kind, Name string
	Seen       uint64 // its modify index
	Sealed     []byte
}

// Entries are all that is sealed in a state.
func Entries(s *state.Snap, w *state.Watch) []Entry {
	var out []Entry
	if a := s.Authority(w); a != nil {
		out = append(out, Entry{Kind: Authority, Seen: a.ModifyIndex, Sealed: a.Sealed})
	}
	for k := range s.SigningKeys(w) {
		out = append(out, Entry{Kind: SigningKey, Name: k.ID, Seen: k.ModifyIndex, Sealed: k.Sealed})
	}
	for e := range s.Secrets(w) {
		out = append(out, Entry{Kind: Secret, Name: e.Name, Seen: e.ModifyIndex, Sealed: e.Data})
	}
	return out
}

// Uses counts what is sealed with a data key.
func Uses(s *state.Snap, id string) int {
	n := 0
	for _, e := range Entries(s, nil) {
		if datakey.Under(e.Sealed, id) {
			n++
		}
	}
	return n
}

// Reseal puts what was sealed anew into the place of what was seen.
type Reseal struct{ Entries []Entry }

// Apply returns how many entries were replaced.
func (c *Reseal) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	done := 0
	for i := range c.Entries {
		e := &c.Entries[i]
		if tx.Sealable(e.Sealed) == nil && replace(tx, e) {
			done++
		}
	}
	for _, k := range slices.Collect(tx.DataKeys(nil)) {
		if k.State == datakey.Inactive && Uses(&tx.Snap, k.ID) == 0 {
			now := *k
			now.State = datakey.Deprecated
			tx.PutDataKey(&now)
		}
	}
	return done, nil
}

func replace(tx *state.Tx, e *Entry) bool {
	switch e.Kind {
	case Authority:
		if a := tx.Authority(nil); a != nil && a.ModifyIndex == e.Seen {
			now := *a
			now.Sealed = e.Sealed
			tx.PutAuthority(&now)
			return true
		}
	case SigningKey:
		if k := tx.SigningKey(nil, e.Name); k != nil && k.ModifyIndex == e.Seen {
			now := *k
			now.Sealed = e.Sealed
			tx.PutSigningKey(&now)
			return true
		}
	case Secret:
		if s := tx.Secret(nil, e.Name); s != nil && s.ModifyIndex == e.Seen {
			tx.PutSecret(&state.Sealed{Name: e.Name, Data: e.Sealed})
			return true
		}
	}
	return false
}

// Remove forgets a data key, and the signing key that came with it.
type Remove struct{ ID string }

// Apply returns nil.
func (c *Remove) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	k := tx.DataKey(nil, c.ID)
	switch {
	case k == nil:
		return nil, fault.New(fault.NotFound, "remove", "data key "+c.ID, "there is none of that id")
	case k.State == datakey.Active:
		return nil, fault.WithHint(fault.New(fault.Conflict, "remove", "data key "+c.ID, "it is the active one"),
			"make another one with berth operator root keyring rotate -full")
	}
	if n := Uses(&tx.Snap, c.ID); n > 0 {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "remove", "data key "+c.ID, fmt.Sprintf("entries sealed with it: %d", n)),
			"seal them with a new key: berth operator root keyring rotate -full")
	}
	if n := Believed(&tx.Snap, c.ID, st.Time); n > 0 {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "remove", "data key "+c.ID,
				fmt.Sprintf("allocations that may show an identity signed with its key: %d", n)),
			"wait until they have ended, or have others take their place: berth alloc stop ID")
	}
	tx.DeleteDataKey(c.ID)
	tx.DeleteSigningKey(c.ID) // what it signed is believed no longer
	return nil, nil
}

// Releases is true: it takes something away.
func (c *Remove) Releases() bool { return true }

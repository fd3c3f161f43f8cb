// Package keys owns the commands over the keys that secrets are sealed with: how one comes in, who can open it, what is
// sealed with it anew, and how it goes. Only packages of the server import it.
package keys

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on it has data keys.
const Schema = 8

func init() {
	fsm.Register[Put]("data-key-put", Schema, "server/keyring")
	fsm.Register[Wrap]("data-key-wrap", Schema, "server/keyring")
	fsm.Register[Unwrap]("data-key-unwrap", Schema, "server/keyring")
}

// Put brings a data key in, with which is sealed from then on.
type Put struct {
	ID    string
	Wraps []datakey.Wrap
	// After is the key that was the active one; empty: there was none. Of two that were made at once one holds.
	After string
	// Signing is the key that the cluster signs with from then on; nil: it goes on with the one that it has.
	Signing *SigningKeyPut
}

// Apply returns the *datakey.Key.
func (c *Put) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	if k := tx.DataKey(nil, c.ID); k != nil {
		return k, nil // it was made, and the answer was lost
	}
	old := tx.ActiveDataKey(nil)
	if (old == nil) != (c.After == "") || old != nil && old.ID != c.After {
		return nil, fault.WithHint(fault.New(fault.Conflict, "make", "data key", "another one was made meanwhile"),
			"look at it with berth operator root keyring list, and try again")
	}
	if old != nil {
		was := *old
		was.State = datakey.Inactive
		tx.PutDataKey(&was)
	}
	k := (&datakey.Key{ID: c.ID, State: datakey.Active, Created: st.Time}).With(c.Wraps...)
	tx.PutDataKey(k)
	if s := c.Signing; s != nil {
		tx.PutSigningKey(&state.SigningKey{
			ID:        s.ID,
			Algorithm: s.Algorithm,
			Public:    s.Public,
			Sealed:    s.Sealed,
			Created:   st.Time,
		})
	}
	return k, nil
}

// Wrapped is a wrap of the data key of that id.
type Wrapped struct {
	Key  string
	Wrap datakey.Wrap
}

// Wrap lets holders open data keys: each wrap takes the place of its holder's.
type Wrap struct{ Wraps []Wrapped }

// Apply returns nil.
func (c *Wrap) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	for _, w := range c.Wraps {
		if k := tx.DataKey(nil, w.Key); k != nil { // else it was removed meanwhile: nothing is left to be opened
			tx.PutDataKey(k.With(w.Wrap))
		}
	}
	return nil, nil
}

// Unwrap takes the wraps of holders away. What a holder has opened before it may know for ever: make a new key, too.
type Unwrap struct{ Holders []datakey.Holder }

// Apply returns nil. The last server that can open a key keeps its wrap.
func (c *Unwrap) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	var left []*datakey.Key
	for k := range tx.DataKeys(nil) {
		now := k.Without(c.Holders...)
		if !now.Opened() {
			return nil, fault.New(fault.Conflict, "take away", datakey.Join(c.Holders),
				fmt.Sprintf("no other server could open data key %s", k.ID))
		}
		if len(now.Wraps) != len(k.Wraps) {
			left = append(left, now)
		}
	}
	for _, k := range left {
		tx.PutDataKey(k)
	}
	return nil, nil
}

// Releases is true: it takes something away.
func (c *Unwrap) Releases() bool { return true }

package variables

import (
	"time"

	"berth/internal/model/variable"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Acquire takes the lock of a variable, and makes the variable where there is none.
type Acquire struct {
	At
	Lock   variable.Lock
	Again  bool   `cbor:",omitempty"` // its holder takes it once more
	Sealed []byte // what it holds from then on; nil: what it held, nothing if it is new
	Empty  []byte // what it holds if it is new, and Sealed says nothing
}

// Apply returns an *Outcome.
func (c *Acquire) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Variable(nil, c.Namespace, c.Path)
	again := ""
	if c.Again {
		again = c.Lock.ID
	}
	if conflict := variable.Acquirable(now, again, st.Time); conflict != "" {
		return c.outcome(tx, conflict), nil
	}
	v, err := c.begin(tx, st, now)
	if err != nil {
		return nil, err
	}
	sealed := c.Sealed
	if now == nil && sealed == nil {
		sealed = c.Empty
	}
	lock := c.Lock
	v.Lock = &lock
	v.FreeAt = time.Time{}
	if err := c.write(tx, st, v, sealed); err != nil {
		return nil, err
	}
	return c.outcome(tx, ""), nil
}

// Release gives the lock of a variable back, by who holds it.
type Release struct {
	At
	Lock string
}

// Apply returns an *Outcome.
func (c *Release) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	return released(tx, st, c.At, c.Lock, false)
}

// Releases is true: it takes something away.
func (c *Release) Releases() bool { return true }

// Lose takes the lock of a variable from who has not renewed it.
type Lose struct {
	At
	Lock string
}

// Apply returns an *Outcome.
func (c *Lose) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	return released(tx, st, c.At, c.Lock, true)
}

// Releases is true: it takes something away.
func (c *Lose) Releases() bool { return true }

func released(tx *state.Tx, st fsm.Stamp, at At, lock string, lost bool) (*Outcome, error) {
	now := tx.Variable(nil, at.Namespace, at.Path)
	if !now.Holds(lock) {
		return at.outcome(tx, variable.NotHeld), nil
	}
	err := at.write(tx, st, now.Released(lost, st.Time), nil)
	return at.outcome(tx, ""), err
}

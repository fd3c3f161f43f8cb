// Package variables owns the commands that write variables and their locks. What a variable holds is sealed before it
// is in a command: neither the log nor the state has it in clear. Only packages of the server import it.
package variables

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/variable"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() {
	fsm.Register[Put]("variable-put", variable.Schema, "server/endpoint/variables")
	fsm.Register[Delete]("variable-delete", variable.Schema, "server/endpoint/variables")
	fsm.Register[Acquire]("variable-acquire", variable.Schema, "server/endpoint/variables")
	fsm.Register[Release]("variable-release", variable.Schema, "server/endpoint/variables")
	fsm.Register[Lose]("variable-lose", variable.Schema, "server/locks")
}

// Outcome is what became of a write. Where it met another one nothing was written, and it is what is there.
type Outcome struct {
	Conflict variable.Conflict  // empty: it was written
	Variable *variable.Variable // nil: nothing is there
	Sealed   []byte             // its items
}

// At is the variable that a command is about.
type At struct {
	Namespace ids.Namespace
	Path      string
}

func (a At) sealed() string { return variable.SealedName(a.Namespace, a.Path) }

// outcome says what is there now.
func (a At) outcome(tx *state.Tx, c variable.Conflict) *Outcome {
	out := &Outcome{Conflict: c, Variable: tx.Variable(nil, a.Namespace, a.Path)}
	if s := tx.Secret(nil, a.sealed()); s != nil {
		out.Sealed = s.Data
	}
	return out
}

// write puts a variable with what it holds; nil: what it held before.
func (a At) write(tx *state.Tx, st fsm.Stamp, v *variable.Variable, sealed []byte) error {
	if sealed != nil {
		if err := tx.Sealable(sealed); err != nil {
			return err
		}
		tx.PutSecret(&state.Sealed{Name: a.sealed(), Data: sealed})
	}
	v.ModifyTime = st.Time.UnixNano()
	tx.PutVariable(v)
	return nil
}

// begin is a copy of what is there to be changed, or of a new variable.
func (a At) begin(tx *state.Tx, st fsm.Stamp, now *variable.Variable) (*variable.Variable, error) {
	if now != nil {
		v := *now
		return &v, nil
	}
	if err := variable.ValidPath(a.Path); err != nil {
		return nil, err
	}
	if tx.Namespace(nil, a.Namespace) == nil {
		return nil, fault.WithHint(fault.New(fault.Invalid, "write", variable.Name(a.Path),
			fmt.Sprintf("there is no namespace %q", a.Namespace)), "make it first: berth namespace apply NAME")
	}
	return &variable.Variable{Namespace: a.Namespace, Path: a.Path, CreateTime: st.Time.UnixNano()}, nil
}

// Put writes what a variable holds: a new one, or in place of what is at its path.
type Put struct {
	At
	Sealed []byte
	Check  *uint64 `cbor:",omitempty"`
	Lock   string  `cbor:",omitempty"`
}

// Apply returns an *Outcome.
func (c *Put) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Variable(nil, c.Namespace, c.Path)
	if conflict := (variable.Write{Check: c.Check, Lock: c.Lock}).Allowed(now); conflict != "" {
		return c.outcome(tx, conflict), nil
	}
	v, err := c.begin(tx, st, now)
	if err == nil {
		err = c.write(tx, st, v, c.Sealed)
	}
	return c.outcome(tx, ""), err
}

// Delete removes a variable. That none is there is no conflict.
type Delete struct {
	At
	Check *uint64 `cbor:",omitempty"`
	Lock  string  `cbor:",omitempty"`
}

// Apply returns an *Outcome.
func (c *Delete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	now := tx.Variable(nil, c.Namespace, c.Path)
	if now == nil && c.Check == nil {
		return c.outcome(tx, ""), nil
	}
	if conflict := (variable.Write{Check: c.Check, Lock: c.Lock}).Allowed(now); conflict != "" {
		return c.outcome(tx, conflict), nil
	}
	tx.DeleteVariable(c.Namespace, c.Path)
	tx.DeleteSecret(c.sealed())
	return c.outcome(tx, ""), nil
}

// Releases is true: it takes something away.
func (c *Delete) Releases() bool { return true }

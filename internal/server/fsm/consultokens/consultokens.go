// Package consultokens owns the commands by which it is written down which tokens of Consul tasks have, before they
// are made, and forgotten when they are gone. Packages of the server half may import it.
package consultokens

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on there are such tokens.
const Schema = 16

func init() {
	fsm.Register[Intend]("consul-token", Schema, "server/consultokens")
	fsm.Register[Forget]("consul-token-forget", Schema, "server/consultokens")
}

// Intend writes down that a token is about to be made, if its task may have one still.
type Intend struct {
	Alloc    ids.Alloc
	Task     string
	Node     ids.Node
	Service  string
	Accessor string // of a token that is new
}

// Apply returns the *consul.ServiceToken that the task has: the one that was written down first keeps its accessor.
func (c *Intend) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	a := tx.Alloc(nil, c.Alloc)
	if a == nil || a.Node != c.Node || a.ClientTerminal() || a.DesiredStatus != alloc.DesiredRun {
		return nil, fault.New(fault.Denied, "make", fmt.Sprintf("a token of Consul for task %q of allocation %q",
			c.Task, c.Alloc), "the allocation does not run on the node any more")
	}
	t := &consul.ServiceToken{
		Alloc:    c.Alloc,
		Task:     c.Task,
		Node:     c.Node,
		Service:  c.Service,
		Accessor: c.Accessor,
		Asked:    st.Time,
	}
	if old := tx.ConsulToken(nil, c.Alloc, c.Task); old != nil {
		if old.Service != c.Service {
			return nil, fault.New(fault.Conflict, "make", fmt.Sprintf("a token of Consul for task %q of allocation %q",
				c.Task, c.Alloc), fmt.Sprintf("it has one for service %q already", old.Service))
		}
		t.Accessor = old.Accessor
		t.CreateIndex = old.CreateIndex
	}
	tx.PutConsulToken(t)
	return t, nil
}

// Forget forgets a token that is gone.
type Forget struct {
	Alloc ids.Alloc
	Task  string
	Seen  uint64 // what is known of it, as it was looked at
}

// Apply returns whether it is forgotten: one that was asked for since is not.
func (c *Forget) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	old := tx.ConsulToken(nil, c.Alloc, c.Task)
	if old == nil || old.ModifyIndex != c.Seen {
		return false, nil
	}
	return tx.DeleteConsulToken(c.Alloc, c.Task), nil
}

// Releases is true: it ends something.
func (c *Forget) Releases() bool { return true }

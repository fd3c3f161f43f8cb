// Package autopilot owns the commands by which the servers keep themselves: what operators say of it, and that a server
// which is dead is taken off. Only packages of the server import it.
package autopilot

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/autopilot"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on its servers keep themselves.
const Schema = 9

func init() {
	fsm.Register[Put]("autopilot-put", Schema, "server/endpoint/operator")
	fsm.Register[Cleanup]("autopilot-cleanup", Schema, "server/membership")
}

// Put says how the servers keep themselves.
type Put struct {
	Config autopilot.Config
	// Checked: only where the last that was said is that of index Last; 0: nothing was.
	Checked bool
	Last    uint64
}

// Apply returns a bool: it holds. It does not where another one was said than who asked has seen.
func (c *Put) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	next := c.Config
	if err := next.Validate(); err != nil {
		return false, err
	}
	old := tx.Autopilot(nil)
	switch {
	case c.Checked && old.ModifyIndex != c.Last:
		return false, nil
	case old.ModifyIndex > 0 && old.Same(&next):
		return true, nil
	}
	tx.PutAutopilot(&next)
	return true, nil
}

// Cleanup takes a dead server out of the cluster, as joining.ServerRemove does, where that is still wanted.
type Cleanup struct {
	Name string
	// Keep is how many servers are to stay in the list at least.
	Keep uint64
}

// Apply returns the *trust.Member.
func (c *Cleanup) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	what := fmt.Sprintf("server %q, which is dead", c.Name)
	if !tx.Autopilot(nil).CleanupDead {
		return nil, fault.New(fault.Conflict, "remove", what, "CleanupDeadServers was set to false")
	}
	left := uint64(0)
	for m := range tx.Members(nil, trust.Server) {
		if !m.Gone() && m.ID != c.Name {
			left++
		}
	}
	if left < c.Keep {
		return nil, fault.New(fault.Conflict, "remove", what,
			fmt.Sprintf("%d servers would be left, and there are to be %d", left, c.Keep))
	}
	return (&joining.ServerRemove{Name: c.Name}).Apply(tx, st)
}

// Releases is true: it takes something away.
func (c *Cleanup) Releases() bool { return true }

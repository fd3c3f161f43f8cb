// Package withdrawal owns that a person takes the registration of a service away: its alloc is found no more under that
// name, whatever becomes of it. Packages of the server half may import it.
package withdrawal

import (
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() {
	fsm.Register[Withdraw]("service-withdraw", fsm.SchemaServices, "server/endpoint/services")
}

// Withdraw takes a registration away.
type Withdraw struct {
	Namespace ids.Namespace
	Name      string
	ID        string
	Alloc     ids.Alloc
}

// Apply returns nil. What is not registered is NotFound.
func (c *Withdraw) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	missing := fault.WithHint(fault.New(fault.NotFound, "delete", fmt.Sprintf("registration %q", c.ID),
		fmt.Sprintf("service %q has no such registration in namespace %q", c.Name, c.Namespace)),
		`"berth service list" lists what is found; what has ended is found no more by itself`)
	old := tx.Alloc(nil, c.Alloc)
	if old == nil || old.Namespace != c.Namespace {
		return nil, missing
	}
	j, n := tx.JobOf(nil, old), tx.Node(nil, old.Node)
	if j == nil || n == nil {
		return nil, missing
	}
	found := service.Registrations(service.Source{Alloc: old, Job: j, Node: n})
	if !slices.ContainsFunc(found, func(r *service.Registration) bool { return r.ID == c.ID && r.Name == c.Name }) {
		return nil, missing
	}
	a := *old
	a.Withdrawn = append(slices.Clone(old.Withdrawn), c.ID)
	a.AllocModifyIndex, a.ModifyTime = st.Index, st.Time.UnixNano()
	tx.PutAlloc(&a)
	return nil, nil
}

// AllocOf is the alloc that the id of a registration names; empty: it names none.
func AllocOf(id string) ids.Alloc {
	const before, uuid = "_nomad-task-", 36
	if len(id) < len(before)+uuid || id[:len(before)] != before {
		return ""
	}
	return ids.Alloc(id[len(before) : len(before)+uuid])
}

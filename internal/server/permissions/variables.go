package permissions

import (
	"fmt"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/server/state"
	"berth/internal/wire"
)

var variables = []entry{
	// It shows what the caller may list.
	asks(wire.VariableList, always[wire.Query](nil)),
	asks(wire.VariableGet, func(r *wire.Ref[string], _ *state.Snap) []need {
		return atPath(r.Namespace, r.ID, acl.Read)
	}),
	asks(wire.VariablePut, func(r *wire.VariablePutRequest, _ *state.Snap) []need {
		return atPath(r.Namespace, r.Path, acl.Write)
	}),
	asks(wire.VariableDelete, func(r *wire.VariableDeleteRequest, _ *state.Snap) []need {
		return atPath(r.Namespace, r.Path, acl.Destroy)
	}),
	asks(wire.VariableAcquire, func(r *wire.VariableAcquireRequest, _ *state.Snap) []need {
		return atPath(r.Namespace, r.Path, acl.Write)
	}),
	asks(wire.VariableRenew, ofLock),
	asks(wire.VariableRelease, ofLock),
}

func ofLock(r *wire.VariableLockRequest, _ *state.Snap) []need {
	return atPath(r.Namespace, r.Path, acl.Write)
}

// atPath needs something of the variable at a path of a namespace.
func atPath(ns ids.Namespace, path string, c acl.Capability) []need {
	n := in(ns, c)
	n[0].Variable = path
	return n
}

// MayVariable tells whether the caller may do something with a variable: by a policy, or as the task that it is.
func (c *Caller) MayVariable(ns ids.Namespace, path string, any acl.Capability) bool {
	return c.Rules.AllowsVariable(any, string(ns), path) || c.Workload != nil && c.Workload.May(ns, path, any)
}

// variableRule is how a policy gives something of a variable.
func variableRule(n need) string {
	return fmt.Sprintf("path %q { capabilities = [%q] } in the block variables of namespace %q", n.Variable, n.Any[0],
		n.Name)
}

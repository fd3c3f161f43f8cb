package variables

import (
	"sync"

	"berth/internal/base/ids"
	"berth/internal/model/variable"
	"berth/internal/server/fsm/variables"
	"berth/internal/server/state"
)

// admission lets writes in as far as they fit into their namespaces. It is asked by the server that leads, before a
// write is proposed: the bounds are of its configuration, and a command means the same on every server.
type admission struct {
	bounds variable.Bounds

	mu     sync.Mutex
	coming map[ids.Namespace]variable.Taken // what was let in and is not in the state yet
}

// enter lets a write in, of so many sealed bytes at a path; the caller must call done when the write is in the state,
// or was not made.
func (a *admission) enter(s *state.Store, at variables.At, bytes int) (done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := s.Snapshot()
	have, coming := taken(now, at.Namespace), a.coming[at.Namespace]
	have.Number += coming.Number
	have.Bytes += coming.Bytes
	more := variable.Taken{Number: 1, Bytes: bytes}
	if old := now.Secret(nil, variable.SealedName(at.Namespace, at.Path)); old != nil {
		more = variable.Taken{Bytes: bytes - len(old.Data)}
	}
	after := variable.Taken{Number: have.Number + more.Number, Bytes: have.Bytes + more.Bytes}
	if err := a.bounds.Admit(at.Namespace, at.Path, have, after); err != nil {
		return nil, err
	}
	more.Bytes = max(more.Bytes, 0) // what makes room has made it when it is in the state
	a.add(at.Namespace, more.Number, more.Bytes)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.add(at.Namespace, -more.Number, -more.Bytes)
	}, nil
}

// add counts what comes. The caller holds the lock.
func (a *admission) add(ns ids.Namespace, number, bytes int) {
	if a.coming == nil {
		a.coming = map[ids.Namespace]variable.Taken{}
	}
	c := a.coming[ns]
	c.Number += number
	c.Bytes += bytes
	if a.coming[ns] = c; c == (variable.Taken{}) {
		delete(a.coming, ns)
	}
}

// taken is how much the variables of a namespace are.
func taken(s *state.Snap, ns ids.Namespace) (out variable.Taken) {
	for e := range s.SecretsUnder(variable.SealedName(ns, "")) {
		out.Number++
		out.Bytes += len(e.Data)
	}
	return out
}

package client

import (
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
)

// ProcessesGone implements csimanager.ProcessGate. An alloc that this node has no record of, but a directory or a damaged
// record, is not proven gone.
func (a *allocs) ProcessesGone(id ids.Alloc) (bool, string) {
	a.mu.Lock()
	r, damaged, restoring := a.byID[id], a.damaged[id], a.loaded.Allocs[id] != nil && !a.restored
	a.mu.Unlock()
	switch {
	case r != nil:
		return r.ProcessesGone()
	case damaged != nil:
		return false, "its record is damaged: " + damaged.Error()
	case restoring:
		return false, "the agent has just started and has not looked for its tasks yet"
	case allocdir.New(a.c.AllocDir(), id).Exists():
		return false, "its directory is there, but nothing is known of its tasks"
	}
	return true, ""
}

// Changed implements csimanager.ProcessGate.
func (a *allocs) Changed() <-chan struct{} { return a.changed.C() }

// ProcessesIdle implements csimanager.IdleGate.
func (a *allocs) ProcessesIdle(id ids.Alloc) bool {
	r := a.runner(id)
	return r != nil && r.Idle()
}

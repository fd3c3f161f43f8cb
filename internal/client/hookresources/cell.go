// Package hookresources owns the values that alloc hooks hand to task hooks of the same alloc.
package hookresources

import (
	"maps"
	"sync"

	"berth/internal/client/csimanager"
)

// Cell is an atomic value: Set keeps a copy, Get returns a copy, so that neither side can change what the other sees.
// The zero value holds nothing.
type Cell[T any] struct {
	copy func(T) T
	mu   sync.Mutex
	v    T
	set  bool
}

// NewCell returns a cell that copies with fn.
func NewCell[T any](fn func(T) T) *Cell[T] { return &Cell[T]{copy: fn} }

// Set stores a copy.
func (c *Cell[T]) Set(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.v, c.set = c.copy(v), true
}

// Get returns a copy and whether a value was set.
func (c *Cell[T]) Get() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.set {
		var zero T
		return zero, false
	}
	return c.copy(c.v), true
}

// Resources are the cells of one alloc.
type Resources struct {
	// Mounts holds the published CSI volumes by the alias of the group's volume block.
	Mounts *Cell[map[string]csimanager.MountInfo]
}

// New returns empty resources for one alloc.
func New() *Resources {
	return &Resources{Mounts: NewCell(maps.Clone[map[string]csimanager.MountInfo])}
}

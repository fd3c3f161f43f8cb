package hook

import (
	"maps"
	"sync"

	"berth/internal/client/csimanager"
)

// Mounts are the published volumes of one alloc by the alias of the group's volume block: the alloc's hook sets them,
// the hooks of its tasks read them. Each has a copy of its own. The zero value holds none.
type Mounts struct {
	mu      sync.Mutex
	byAlias map[string]csimanager.MountInfo
}

// Set keeps a copy.
func (m *Mounts) Set(byAlias map[string]csimanager.MountInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byAlias = maps.Clone(byAlias)
}

// Get returns a copy; nil: none were set.
func (m *Mounts) Get() map[string]csimanager.MountInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.byAlias)
}

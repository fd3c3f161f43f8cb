// Package nodemeta owns the node's metadata: what its configuration says, and what was said of it at run time, which
// lies over that and outlives the agent. Only package client and what it is made of import it.
package nodemeta

import (
	"maps"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// Store remembers what was said at run time; the node's own does.
type Store interface {
	NodeMeta() (map[string]*string, error)
	PutNodeMeta(map[string]*string) error
}

// Meta is the metadata of the node.
type Meta struct {
	node    ids.Node
	static  map[string]string
	store   Store
	changed lifecycle.Signal

	mu      sync.Mutex
	dynamic map[string]*string // replaced, never changed in place
}

// Open returns the metadata that lies over what the configuration says.
func Open(id ids.Node, static map[string]string, store Store) (*Meta, error) {
	dynamic, err := store.NodeMeta()
	if err != nil {
		return nil, fault.Note(err, "read", "the node's metadata")
	}
	return &Meta{node: id, static: static, store: store, dynamic: settled(static, dynamic)}, nil
}

// Changed returns a channel that is closed when the metadata is another than at the call.
func (m *Meta) Changed() <-chan struct{} { return m.changed.C() }

// Merged is the metadata as others see it.
func (m *Meta) Merged() map[string]string { return m.Show().Meta }

// Show tells the metadata, and where it is from.
func (m *Meta) Show() *wire.NodeMetaReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &wire.NodeMetaReply{
		Meta:    merged(m.static, m.dynamic),
		Dynamic: node.MetaWordsOf(m.dynamic),
		Static:  maps.Clone(m.static),
	}
}

// Apply lays values over what there is; nil takes a key away. All of it is on disk when it returns, or none.
func (m *Meta) Apply(values map[string]*string) (*wire.NodeMetaReply, error) {
	m.mu.Lock()
	next := maps.Clone(m.dynamic)
	if next == nil {
		next = map[string]*string{}
	}
	maps.Copy(next, values)
	next = settled(m.static, next)
	err := check(values, merged(m.static, next), next)
	if err == nil {
		err = fault.Wrap(m.store.PutNodeMeta(next), fault.Internal, "write", "the metadata of the node")
	}
	if err != nil {
		m.mu.Unlock()
		return nil, fault.Note(err, "change the metadata of", `node "`+string(m.node)+`"`)
	}
	m.dynamic = next
	m.mu.Unlock()
	m.changed.Notify()
	return m.Show(), nil
}

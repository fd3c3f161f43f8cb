// Package driveroptions owns the command by which is recorded what the drivers of a node take. It stands apart from a
// node's registration, which repeats all that a node says of itself whenever some of it changes. Only packages of the
// server import it.
package driveroptions

import (
	"maps"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on it is recorded what drivers take.
const Schema = 6

// SchemaBounds is the number from which on that says how large numbers may be, and which texts are paths.
const SchemaBounds = 15

func init() { fsm.Register[Put]("driver-options", Schema, "server/endpoint/nodes") }

// Put says what the drivers of a node take; of those that it leaves out that is not known.
type Put struct {
	Node    ids.Node
	Drivers map[string]taskconfig.Schema
}

// Of is what a node says of its drivers.
func Of(n *node.Node) map[string]taskconfig.Schema {
	out := map[string]taskconfig.Schema{}
	for name, d := range n.Drivers {
		if len(d.Options) > 0 {
			out[name] = d.Options
		}
	}
	return out
}

// Changes reports whether something else is recorded. A node that is not there has no record.
func (c *Put) Changes(s *state.Snap) bool {
	n := s.Node(nil, c.Node)
	return n != nil && !maps.EqualFunc(Of(n), c.Drivers, taskconfig.Schema.Equal)
}

// Apply returns nil.
func (c *Put) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	if !c.Changes(&tx.Snap) {
		return nil, nil
	}
	n := *tx.Node(nil, c.Node)
	drivers := make(map[string]*node.Driver, len(n.Drivers))
	for name, old := range n.Drivers { // the order does not show in the map that it fills
		d := *old
		d.Options = c.Drivers[name]
		drivers[name] = &d
	}
	n.Drivers = drivers
	tx.PutNode(&n)
	return nil, nil
}

// Understood is what a node says of its drivers, without what servers of earlier releases do not know.
func Understood(s *state.Snap, n *node.Node) map[string]taskconfig.Schema {
	out := Of(n)
	if s.Understands(SchemaBounds) {
		return out
	}
	for name, schema := range out { // in any order: each by itself
		out[name] = taskconfig.Schema{}
		for option, f := range schema { // likewise, in any order
			f.Absolute, f.Most = false, 0
			out[name][option] = f
		}
	}
	return out
}

package fsm

import (
	"berth/internal/base/ids"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func init() { register[Bootstrap]("bootstrap", 1, "server") }

// Bootstrap begins the cluster's state: its id, the incarnation of this life, the built-in namespaces. On a state that
// has begun already it does nothing.
type Bootstrap struct {
	ClusterID   string
	Incarnation string
}

// Apply returns the *state.Meta that holds.
func (c *Bootstrap) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if m := tx.Meta(nil); m != nil {
		return m, nil
	}
	m := &state.Meta{ClusterID: c.ClusterID, Incarnation: c.Incarnation, Schema: 1}
	tx.PutMeta(m)
	tx.PutNamespace(&wire.Namespace{Name: ids.DefaultNamespace, Description: "Default shared namespace"})
	tx.PutNamespace(&wire.Namespace{Name: ids.ReservedNamespace, Description: "Berth's own jobs"})
	return m, nil
}

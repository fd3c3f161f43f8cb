package fsm

import (
	"berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/server/attaching"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
)

func init() {
	Register[Bootstrap]("bootstrap", 1, "server")
	Register[SchemaRaise]("schema-raise", 1, "server")
}

// Schema is the highest number of any command that this program knows, or of what their records have: what
// it can propose and understand.
func Schema() uint64 {
	var highest uint64 = max(network.Schema, job.SchemaBatches, job.SchemaFiles, job.SchemaScaling,
		job.SchemaDisconnect, job.SchemaCores, job.SchemaSharedPorts,
		job.SchemaServiceIdentities, job.SchemaSecrets, job.SchemaConsul, job.SchemaMesh, job.SchemaCallsAtOnce,
		device.Schema, attaching.Schema)
	for _, k := range Kinds() {
		highest = max(highest, k.Schema)
	}
	return highest
}

// Bootstrap begins the cluster's state: its id, its incarnation, the built-in namespaces and node pools. On a state
// that has begun already it does nothing.
type Bootstrap struct {
	ClusterID   string
	Incarnation string
	Schema      uint64
}

// Apply returns the *state.Meta that holds.
func (c *Bootstrap) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if m := tx.Meta(nil); m != nil {
		return m, nil
	}
	m := &state.Meta{ClusterID: c.ClusterID, Incarnation: c.Incarnation, Schema: c.Schema}
	tx.PutMeta(m)
	partitions.Found(tx, c.Schema)
	return m, nil
}

// SchemaRaise lets commands of a higher schema be proposed, once every server understands them. It never goes down.
// What the new schema expects of the state is made of what the old one has.
type SchemaRaise struct{ To uint64 }

// Apply returns nil.
func (c *SchemaRaise) Apply(tx *state.Tx, _ Stamp) (any, error) {
	m := tx.Meta(nil)
	if m == nil || m.Schema >= c.To {
		return nil, nil
	}
	n := *m
	n.Schema = c.To
	tx.PutMeta(&n)
	partitions.Found(tx, c.To)
	return nil, nil
}

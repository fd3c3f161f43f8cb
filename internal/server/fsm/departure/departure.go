// Package departure owns what becomes of nodes that the servers forget, by garbage collection or because a person asks:
// what has to be over before, what is kept of them, so that one that comes back is the node that it was, and until
// when. Packages of the server half may import it.
package departure

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on something is kept of nodes that are forgotten, and people can have
// them forgotten.
const Schema = 10

// What is kept of nodes that were forgotten is kept for so long, and of so many.
const (
	KeptFor = 90 * 24 * time.Hour
	Most    = 10_000
)

func init() {
	fsm.Register[Purge]("node-purge", Schema, "server/endpoint/nodes")
	fsm.Register[Goodbye]("node-goodbye", Schema, "server/endpoint/nodes")
	fsm.Register[Expire]("departures-expire", Schema, "server/gc")
}

// Forget removes a node from the state. What is kept is its key, which is that of a member; its secret; and the chain
// of its sessions. What it has seen of this history it brings along itself.
func Forget(tx *state.Tx, st fsm.Stamp, id ids.Node) {
	n := tx.Node(nil, id)
	if n == nil {
		return
	}
	tx.DeleteInventory(id)
	tx.DeleteNode(id)
	if !tx.Understands(Schema) {
		tx.DropSession(id)
		return
	}
	tx.PutSession(tx.Session(nil, id).Depart(id, node.Departure{
		Time:       st.Time,
		SecretHash: n.SecretHash,
		Name:       n.Name,
	}))
}

// Expire ends what is kept of nodes that were forgotten: who comes back under such an id comes with a token, and is
// new. A denial stays.
type Expire struct{ Nodes []ids.Node }

// Releases lets it through when the disk is nearly full, because it frees space.
func (c *Expire) Releases() bool { return true }

// Apply returns how many it were.
func (c *Expire) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	done := 0
	for _, id := range c.Nodes {
		if tx.Departure(id) == nil { // it is back
			continue
		}
		tx.DropSession(id)
		if m := tx.Member(nil, trust.Node, string(id)); m != nil && m.Denied == nil {
			tx.DeleteMember(trust.Node, string(id))
		}
		done++
	}
	return done, nil
}

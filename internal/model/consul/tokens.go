package consul

import (
	"fmt"
	"time"

	"berth/internal/base/ids"
)

// ServiceToken is what the servers know of a token by which a task acts in Consul as one service. It is written down
// before the token is made, under the id that it then has there, and is forgotten when it is certain that there is
// none. The secret is in Consul and with the task, and nowhere else.
type ServiceToken struct {
	Alloc    ids.Alloc
	Task     string
	Node     ids.Node
	Service  string // whose identity the token has
	Accessor string // its id in Consul
	// Asked is when the node asked last: until MadeWithin after that one may be made still.
	Asked time.Time

	CreateIndex uint64
	ModifyIndex uint64
}

// MadeWithin is how long after a node asked for a token it may be made, at most: a server that does not lead any more
// may have a request to Consul under way, and Consul may take it after nobody waits for its answer. A token that is not
// there is looked for again when it is over.
const MadeWithin = 5 * time.Minute

// Description is what people read of the token in Consul.
func (t *ServiceToken) Description() string {
	return fmt.Sprintf("Berth: service %s, allocation %s, task %s, node %s", t.Service, t.Alloc, t.Task, t.Node)
}

package server

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// A node whose agent was started again, or whose servers' state was restored, connects anew within a moment. Who calls
// it meanwhile waits: rejoinWait at most, for a node whose connection ended less than rejoinWithin ago.
const (
	rejoinWait   = 3 * time.Second
	rejoinWithin = 30 * time.Second
)

// Await is NodeConn that waits for a node which is about to connect anew.
func (n *Nodes) Await(ctx context.Context, id ids.Node) (wire.Conn, error) {
	limit := time.NewTimer(rejoinWait)
	defer limit.Stop()
	for {
		changed := n.Changed()
		c, err := n.NodeConn(id)
		if !fault.Has(err, fault.Unavailable) || !n.rejoins(id) {
			return c, err
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// rejoins tells whether a node that is not connected may be about to: it was, a moment ago, here or with whatever was
// before this server began, and nobody holds it to be down.
func (n *Nodes) rejoins(id ids.Node) bool {
	n.mu.Lock()
	since, ok := n.lost[id]
	if !ok {
		since = n.began
	}
	n.mu.Unlock()
	known := n.store.Snapshot().Node(nil, id)
	return known != nil && known.Status != node.StatusDown && time.Since(since) < rejoinWithin
}

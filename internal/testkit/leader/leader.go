// Package leader owns a stand-in for the server around endpoints: a cluster of one that always leads. Only tests import
// it.
package leader

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// Alone is a cluster of one that always leads.
type Alone struct{}

// Route implements serving.Cluster.
func (Alone) Route(context.Context, bool) (wire.Conn, error) { return nil, nil }

// Confirm implements serving.Cluster.
func (Alone) Confirm(context.Context) error { return nil }

// Contact implements serving.Cluster.
func (Alone) Contact() (time.Duration, bool) { return 0, true }

// Term implements serving.Cluster.
func (Alone) Term(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// Heard implements serving.Cluster.
func (Alone) Heard(ids.Node, string) {}

// Status implements endpoint.Cluster.
func (Alone) Status() *wire.SystemStatusReply { return &wire.SystemStatusReply{} }

// Beat implements nodes.Heartbeats.
func (Alone) Beat(ids.Node) time.Duration { return time.Second }

// Silence implements nodes.Heartbeats: every node was heard just now.
func (Alone) Silence(ids.Node) (lasts, rest time.Duration) { return 0, time.Second }

// Limit implements nodes.Heartbeats.
func (Alone) Limit() time.Duration { return time.Second }

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

// Ready implements serving.Cluster.
func (Alone) Ready(context.Context) error { return nil }

// Confirm implements serving.Cluster.
func (Alone) Confirm(context.Context) error { return nil }

// Leading implements serving.Cluster.
func (Alone) Leading() bool { return true }

// Status implements endpoint.Cluster.
func (Alone) Status() *wire.SystemStatusReply { return &wire.SystemStatusReply{} }

// Beat implements nodes.Heartbeats.
func (Alone) Beat(ids.Node) time.Duration { return time.Second }

// Silence implements nodes.Heartbeats: every node was heard just now.
func (Alone) Silence(ids.Node) (lasts, rest time.Duration) { return 0, time.Second }

// Limit implements nodes.Heartbeats.
func (Alone) Limit() time.Duration { return time.Second }

package wire

import "berth/internal/base/ids"

// NodePurge has the servers forget a node that is down and holds nothing; served by the server half.
var NodePurge = Unary[NodePurgeRequest, NodePurgeReply]("Node.Purge")

// NodePurgeRequest names the node.
type NodePurgeRequest struct{ Node ids.Node }

// NodePurgeReply names the evaluations that it caused.
type NodePurgeReply struct {
	Index uint64
	Evals []ids.Eval
}

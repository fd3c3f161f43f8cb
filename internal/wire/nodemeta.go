package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// Methods over the metadata of a node, served by the node.
var (
	AgentMeta    = Unary[AgentRef, NodeMetaReply]("Agent.Meta")
	AgentSetMeta = Unary[NodeMetaRequest, NodeMetaReply]("Agent.SetMeta")
)

// NodeMetaRequest changes the metadata of a node: keys that it does not name stay.
type NodeMetaRequest struct {
	Node ids.Node
	Meta node.MetaWords
}

// NodeMetaReply is the metadata of a node: Dynamic, which was said at run time, laid over Static, its configuration,
// makes Meta. A key of Dynamic without a value is taken away from what is configured.
type NodeMetaReply struct {
	Meta    map[string]string
	Dynamic node.MetaWords
	Static  map[string]string
}

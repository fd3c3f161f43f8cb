package wire

import "berth/internal/base/ids"

// Methods over the metadata of a node, served by the node.
var (
	AgentMeta    = Unary[AgentRef, NodeMetaReply]("Agent.Meta")
	AgentSetMeta = Unary[NodeMetaRequest, NodeMetaReply]("Agent.SetMeta")
)

// NodeMetaRequest changes the metadata of a node: values by keys, nil takes a key away. Keys that are not there stay.
type NodeMetaRequest struct {
	Node ids.Node
	Meta map[string]*string
}

// NodeMetaReply is the metadata of a node: Dynamic, which was said at run time, laid over Static, its configuration,
// makes Meta. A key of Dynamic without a value is taken away from what is configured.
type NodeMetaReply struct {
	Meta    map[string]string
	Dynamic map[string]*string
	Static  map[string]string
}

package httpapi

import (
	"berth/internal/httpapi/convert/nodes"
	"berth/internal/wire"
)

// What is asked of nodes, or of the servers about them. Each is a conversion, a call and a conversion.
var (
	nodePurge     = write(wire.NodePurge, body(aboutNodeAlone, nodes.ToPurge), nodes.Purged)
	nodeReplace   = write(wire.NodeReplace, body(aboutNode, nodes.ToReplace), nodes.Replaced)
	nodeMeta      = call(wire.AgentMeta, (*request).nodeTarget, as(nodes.Meta))
	nodeMetaApply = call(wire.AgentSetMeta, (*request).nodeMetaTarget, as(nodes.Meta))

	// forgetMount takes the word of a person about something that is mounted on a node and has no name.
	forgetMount = call(wire.AgentForgetMount, body(aboutNode, nodes.ToForgetMount), done)
)

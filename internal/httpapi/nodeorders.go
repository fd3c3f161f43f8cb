package httpapi

import (
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/nodes"
	"berth/internal/wire"
)

// What is asked of nodes, or of the servers about them. Each is a conversion, a call and a conversion.
var (
	nodePurge     = calls.Write(wire.NodePurge, calls.Form(aboutNodeAlone, nodes.ToPurge), nodes.Purged)
	nodeReplace   = calls.Write(wire.NodeReplace, calls.Form(aboutNode, nodes.ToReplace), nodes.Replaced)
	nodeMeta      = calls.Call(wire.AgentMeta, nodeTarget, calls.As(nodes.Meta))
	nodeMetaApply = calls.Call(wire.AgentSetMeta, nodeMetaTarget, calls.As(nodes.Meta))

	// forgetMount takes the word of a person about something that is mounted on a node and has no name.
	forgetMount = calls.Call(wire.AgentForgetMount, calls.Form(aboutNode, nodes.ToForgetMount), calls.Done)
)

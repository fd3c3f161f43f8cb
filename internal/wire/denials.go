package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/trust"
)

// Methods by which a person lets a node in no more, or again; served by the server half.
var (
	NodeDeny    = Unary[DenialRequest, Written]("Node.Deny")
	NodeAllow   = Unary[DenialRequest, Written]("Node.Allow")
	NodeDenials = Unary[Query, DenialsReply]("Node.Denials")
)

// DenialRequest is a person's word about a node: that it is denied, or is so no more.
type DenialRequest struct {
	Node   ids.Node
	Reason string
	By     string // who says so, as the API knows them
}

// DenialsReply lists the nodes that are denied, by the time since when.
type DenialsReply struct {
	Meta
	Members []*trust.Member
}

package wire

import (
	"time"

	"berth/internal/base/ids"
)

// NodeIdentities signs identities of a task for the node that runs it; served by the server half.
var NodeIdentities = Unary[IdentitiesRequest, IdentitiesReply]("Node.Identities")

// IdentitiesRequest names identities of one task of an allocation that is placed on the calling node.
type IdentitiesRequest struct {
	NodeIdentity
	Alloc ids.Alloc
	Task  string
	Names []string
}

// IdentitiesReply has the identities that were asked for, in that order.
type IdentitiesReply struct {
	Items []SignedIdentity
}

// SignedIdentity is an identity and how long it is good.
type SignedIdentity struct {
	Token Secrets       // one value
	Lives time.Duration // 0: as long as the allocation runs
}

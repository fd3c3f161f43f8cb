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

// NodeServiceIdentity signs the identity of a service for the node that its allocation runs on; served by the server
// half.
var NodeServiceIdentity = Unary[ServiceIdentityRequest, SignedIdentity]("Node.ServiceIdentity")

// ServiceIdentityRequest names a service of an allocation that is placed on the calling node, as its job does.
type ServiceIdentityRequest struct {
	NodeIdentity
	Alloc   ids.Alloc
	Task    string // that the service belongs to; empty: to the group
	Service string
	Port    string // its label
}

// NodeConsulToken gives a node the token of Consul by which a task of the mesh acts as its service, the same at each
// call; served by the server half.
var NodeConsulToken = Unary[ConsulTokenRequest, ConsulTokenReply]("Node.ConsulToken")

// ConsulTokenRequest names a task of an allocation that is placed on the calling node, and the service of the mesh that
// it has its role for, as the job names it.
type ConsulTokenRequest struct {
	NodeIdentity
	Alloc   ids.Alloc
	Task    string
	Service string
}

// ConsulTokenReply is the token.
type ConsulTokenReply struct {
	Token Secrets // one value
}

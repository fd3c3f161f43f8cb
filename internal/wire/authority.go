package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/trust"
)

// Methods by which people replace the root of the cluster; served by the server half.
var (
	TrustRoots  = Unary[Query, RootsReply]("Trust.Roots")
	TrustRotate = Unary[RotateRootRequest, Written]("Trust.Rotate")
	TrustFinish = Unary[FinishRootRequest, Written]("Trust.Finish")
)

// Root is one that the cluster's certificates are believed by.
type Root struct {
	Key     trust.KeyID
	Created time.Time
	By      string    // who had it replace another one; empty: it was made with the cluster, or it is not known
	Until   time.Time // when it is forgotten; zero: it is the present one
}

// UnawareNode is one that has not shown yet that it knows the present root.
type UnawareNode struct {
	Node ids.Node
	Name string
	// Forgotten: it was purged or collected, and may come back as itself.
	Forgotten bool
}

// RootsReply lists the roots, the present one first; none: the cluster has no authority yet.
type RootsReply struct {
	Meta
	Roots   []Root
	Unaware []UnawareNode // while there is a root before the present one
}

// RotateRootRequest asks for another root.
type RotateRootRequest struct{ By string }

// FinishRootRequest has the roots before the present one forgotten now.
type FinishRootRequest struct {
	// Force: also where nodes have not shown that they know the present one. It needs a Reason.
	Force  bool
	Reason string
	By     string
}

package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/partition"
)

// Methods over what divides a cluster, served by the server half.
var (
	NamespaceList   = Unary[Query, List[*partition.Namespace]]("Namespace.List")
	NamespaceGet    = Unary[Ref[ids.Namespace], One[partition.Namespace]]("Namespace.Get")
	NamespacePut    = Unary[NamespacePutRequest, Written]("Namespace.Put")
	NamespaceDelete = Unary[PartitionDeleteRequest, Written]("Namespace.Delete")
	NodePoolList    = Unary[Query, List[*partition.NodePool]]("NodePool.List")
	NodePoolGet     = Unary[Ref[string], One[partition.NodePool]]("NodePool.Get")
	NodePoolPut     = Unary[NodePoolPutRequest, Written]("NodePool.Put")
	NodePoolDelete  = Unary[PartitionDeleteRequest, Written]("NodePool.Delete")
)

// NamespacePutRequest writes a namespace.
type NamespacePutRequest struct {
	Namespace partition.Namespace
	By        string // as the API knows them
}

// NodePoolPutRequest writes a node pool.
type NodePoolPutRequest struct {
	Pool partition.NodePool
	By   string
}

// PartitionDeleteRequest removes a namespace or a node pool.
type PartitionDeleteRequest struct {
	Name string
	By   string
}

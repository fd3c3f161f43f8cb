package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert/partitions"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// What is read and written of what divides a cluster.
var (
	namespaceList   = read(wire.NamespaceList, listBy(), listed((*partition.Namespace).Key, partitions.Namespace))
	namespaceGet    = read(wire.NamespaceGet, byName[ids.Namespace], one("Namespace", public(partitions.Namespace)))
	namespacePut    = write(wire.NamespacePut, about(body((*request).read, partitions.ToNamespace), ofNamespace), empty)
	namespaceDelete = write(wire.NamespaceDelete, partitionDelete, empty)

	poolList   = read(wire.NodePoolList, listBy(), listed((*partition.NodePool).Key, partitions.NodePool))
	poolGet    = read(wire.NodePoolGet, byName[string], one("node pool", public(partitions.NodePool)))
	poolPut    = write(wire.NodePoolPut, about(body((*request).read, partitions.ToNodePool), ofNodePool), empty)
	poolDelete = write(wire.NodePoolDelete, partitionDelete, empty)
)

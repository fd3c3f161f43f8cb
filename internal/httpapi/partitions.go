package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/partitions"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// What is read and written of what divides a cluster.
var (
	namespaceList = calls.Read(wire.NamespaceList, calls.ListBy(), calls.Listed((*partition.Namespace).Key,
		partitions.Namespace))
	namespaceGet = calls.Read(wire.NamespaceGet, calls.ByName[ids.Namespace], calls.One("Namespace",
		calls.Public(partitions.Namespace)))
	namespacePut = calls.Write(wire.NamespacePut, about(calls.Form((*calls.Request).Read, partitions.ToNamespace),
		ofNamespace), calls.Empty)
	namespaceDelete = calls.Write(wire.NamespaceDelete, partitionDelete, calls.Empty)

	poolList = calls.Read(wire.NodePoolList, calls.ListBy(), calls.Listed((*partition.NodePool).Key,
		partitions.NodePool))
	poolGet = calls.Read(wire.NodePoolGet, calls.ByName[string], calls.One("node pool",
		calls.Public(partitions.NodePool)))
	poolPut = calls.Write(wire.NodePoolPut, about(calls.Form((*calls.Request).Read, partitions.ToNodePool),
		ofNodePool), calls.Empty)
	poolDelete = calls.Write(wire.NodePoolDelete, partitionDelete, calls.Empty)
)

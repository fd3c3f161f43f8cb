package volume

import "berth/internal/base/ids"

// Given says that a node was given a provider's volume, or was believed to have it: a claim of it on the node was
// recorded, or the node reported it before this state knew the volume, or while the state might be older than the
// world. It stays for as long as the volume, or what a forgotten one left.
type Given struct {
	StagingKey
	Node  ids.Node
	Index uint64 // of the first time
}

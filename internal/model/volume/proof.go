package volume

import (
	"time"

	"berth/internal/base/ids"
)

// ProvenEnd says that a claim was ended by other evidence than its node's word. It belongs to the identity of the
// volume (UID) and stays in its history when the node has cleaned up and when the volume gets another name.
type ProvenEnd struct {
	UID    string
	Volume ID // the name at that time
	Node   ids.Node
	Alloc  ids.Alloc
	Epoch  Epoch
	Proof  Proof
	Reason string
	By     string // who vouched for it; empty: unknown
	Time   time.Time
	Index  uint64
}

// ClaimProof says that a claim ended by other evidence than its node's word. It stays until that node reported that it
// has nothing of the claim any more: what the node still holds under this epoch is void.
type ClaimProof struct {
	Node ids.Node
	PublicationKey
	Volume ID
	Epoch  Epoch
	Proof  Proof
	Reason string
	Time   time.Time
	Index  uint64
}

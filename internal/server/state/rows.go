package state

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/model/volume"
)

// The rows of tables whose objects no package of the model owns.

// Meta identifies the cluster and the incarnation of its state.
type Meta struct {
	ClusterID string // never changes
	// Incarnation is new at bootstrap and at every restore by a person: epochs of another incarnation are void.
	Incarnation string
	// Parents are the incarnations that this one goes on from, the newest first: the one that a restore replaced, and
	// the one that was restored. What was seen in them is judged by the marks.
	Parents []string
	// Schema bounds what may be proposed: the lowest number that every server understands.
	Schema uint64
	// Mark is the id of the newest lineage mark.
	Mark                     string
	CreateIndex, ModifyIndex uint64
}

// Inventory is one entry of a node's inventory as it was last reported.
type Inventory struct {
	Node                     ids.Node
	Entry                    volume.InventoryEntry
	CreateIndex, ModifyIndex uint64
}

// InventoryHead says what is known of a node's inventory as a whole.
type InventoryHead struct {
	Node ids.Node
	// AllocIndex is the index of the alloc set at which the last report was taken.
	AllocIndex uint64
	// FullIndex is the Raft index of the last full report; 0: none yet, so that nothing can be concluded from silence.
	FullIndex uint64
	// Unknown is mounted on the node, and nobody can say which volume it is.
	Unknown                  []volume.UnknownMount
	CreateIndex, ModifyIndex uint64
}

// SigningKey is a key pair: the public part in clear, the private one in bytes that only the keyring can open.
type SigningKey struct {
	ID                       string
	Algorithm                string // as JSON Web Keys name it
	Public                   []byte
	RSA                      []byte `cbor:",omitempty"` // modulus of a second pair, for RS256; empty: none yet
	Sealed                   []byte // the private parts of both
	Created                  time.Time
	CreateIndex, ModifyIndex uint64
}

// Authority issues the certificates of the cluster: the root in clear, its key in bytes that only the keyring opens.
type Authority struct {
	Root    []byte // DER
	Sealed  []byte
	Created time.Time // of the root
	By      string    `cbor:",omitempty"` // who had the root replace another one, as the API knows them
	// Former are the roots before it that are trusted yet.
	Former                   []trust.Former `cbor:",omitempty"`
	CreateIndex, ModifyIndex uint64
}

// Sealed is an entry of the secret store: bytes that only the keyring can open.
type Sealed struct {
	Name                     string
	Data                     []byte
	CreateIndex, ModifyIndex uint64
}

package volume

import (
	"cmp"
	"fmt"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
)

// ClaimState is queued, held or releasing (claim_flow.go moves it).
type ClaimState string

// Claim states.
const (
	Queued    ClaimState = "queued"    // placed behind the holder; the node starts nothing for it yet
	Held      ClaimState = "held"      // the right to use
	Releasing ClaimState = "releasing" // the alloc's processes are gone or lost; the node releases the volume
)

// Epoch tells a claim from earlier ones of the same alloc: the cluster's incarnation and the Raft index at which it was
// created. It never changes.
type Epoch struct {
	Incarnation string
	Index       uint64
}

func (e Epoch) String() string { return fmt.Sprintf("%s/%d", ids.Short(e.Incarnation), e.Index) }

// Proof says why it is certain that a node no longer writes.
type Proof string

// Proofs (docs/STORAGE.md#proofs).
const (
	ProofNone      Proof = ""
	ProofReleased  Proof = "let-go"  // unpublished and unstaged
	ProofRevoked   Proof = "revoked" // ControllerUnpublish by a plugin whose detach fences
	ProofFenced    Proof = "fenced"  // storage fence
	ProofSelfFence Proof = "self-fence"
	ProofAttested  Proof = "attested" // a person said so
)

// ClaimKey names a claim.
type ClaimKey struct {
	Volume ID
	Alloc  ids.Alloc
}

// Claim is an alloc's right to use a volume. The planner creates it in the command that places the alloc; server/claims
// ends it.
type Claim struct {
	Volume         ID             `cbor:",omitzero"` // the name under which the job asked for it
	UID            string         `cbor:",omitzero"`
	Plugin         ids.Plugin     `cbor:",omitzero"`
	ExternalID     string         `cbor:",omitzero"`
	Alloc          ids.Alloc      `cbor:",omitzero"`
	Node           ids.Node       `cbor:",omitzero"`
	Job            ids.Job        `cbor:",omitzero"`
	Alias          string         `cbor:",omitzero"` // of the group's volume block
	AccessMode     AccessMode     `cbor:",omitzero"`
	AttachmentMode AttachmentMode `cbor:",omitzero"`
	MountOptions   *MountOptions  `cbor:",omitzero"`
	ReadOnly       bool           `cbor:",omitzero"`
	State          ClaimState     `cbor:",omitzero"`
	Epoch          Epoch          `cbor:",omitzero"`
	// Before is the epoch under which the node of an adopted alloc knows its claim, until the node has said that it
	// knows the new one; nil: there is none.
	Before      *Epoch    `cbor:",omitempty"`
	FenceProof  Proof     `cbor:",omitzero"`
	Since       time.Time `cbor:",omitzero"` // of the state
	Reason      string    `cbor:",omitzero"` // why releasing is not finished, last error
	CreateIndex uint64    `cbor:",omitzero"`
	ModifyIndex uint64    `cbor:",omitzero"`
}

// Key names the claim.
func (c *Claim) Key() ClaimKey { return ClaimKey{Volume: c.Volume, Alloc: c.Alloc} }

// Reads reports a claim that cannot write.
func (c *Claim) Reads() bool { return c.ReadOnly || c.AccessMode.ReaderOnly() }

// Staging is the provider's thing that is claimed. It is what counts when it is asked who uses a volume; names of
// volumes come and go.
func (c *Claim) Staging() StagingKey { return StagingKey{Plugin: c.Plugin, ExternalID: c.ExternalID} }

// Identify notes which volume is claimed.
func (c *Claim) Identify(v *Volume) {
	c.UID = v.UID
	c.Plugin = v.Spec.Plugin
	c.ExternalID = v.Status.ExternalID
}

// Epochs are those under which its node may know the claim.
func (c *Claim) Epochs() []Epoch {
	if c.Before == nil {
		return []Epoch{c.Epoch}
	}
	return []Epoch{c.Epoch, *c.Before}
}

// AttachmentKey names an attachment.
type AttachmentKey struct {
	StagingKey
	Node ids.Node
}

// Attachment is a volume made reachable from a node. Everything that its undo needs is stored in it.
type Attachment struct {
	Volume         ID // the name under which it was attached
	UID            string
	Node           ids.Node
	Plugin         ids.Plugin
	ExternalID     string
	StorageNode    string
	Presence       Presence
	Detaching      bool // the call in flight or due is the undo
	Remake         bool // the undo is for the sake of another make: its tries count on
	PublishContext map[string]string
	AccessMode     AccessMode
	AttachmentMode AttachmentMode
	MountOptions   *MountOptions
	ReadOnly       bool
	Secrets        string
	VolumeContext  map[string]string
	Executor       ids.Node // that was given the call; empty: none in flight
	Generation     uint64
	LastError      string
	Tries          int
	NextTry        time.Time
	Since          time.Time
	CreateIndex    uint64
	ModifyIndex    uint64
}

// Key names the attachment.
func (a *Attachment) Key() AttachmentKey { return AttachmentKey{StagingKey: a.Staging(), Node: a.Node} }

// Staging is the provider's thing that is attached.
func (a *Attachment) Staging() StagingKey {
	return StagingKey{Plugin: a.Plugin, ExternalID: a.ExternalID}
}

// StagingKey is the identity of a provider's volume: plugin and external id, never options, mode, job or instance.
// There is one staging of it on a node. Names of volumes only find it.
type StagingKey struct {
	Plugin     ids.Plugin
	ExternalID string
}

// Compare orders keys by plugin and external id.
func (k StagingKey) Compare(o StagingKey) int {
	return cmp.Or(cmp.Compare(k.Plugin, o.Plugin), cmp.Compare(k.ExternalID, o.ExternalID))
}

// PublicationKey names a publication on a node.
type PublicationKey struct {
	StagingKey
	Alloc ids.Alloc
}

// InventoryEntry is what a node knows of one staging and its publications, as it reports it.
type InventoryEntry struct {
	StagingKey
	Volume       ID
	Staging      Presence
	Generation   uint64 // of the attachment it was made with
	Publications []InventoryPublication
	LastError    string
	NextTry      time.Time
	Step         string // what it does or waits for, for people
	ExpandedTo   int64  // bytes the file system was last grown to; 0 unknown
	// Provider is who made it on the node, by the plugin's own name; empty: it is not recorded.
	Provider string
	// Undone says how the node came to hold nothing any more, where its plugin's word was not enough; nil: it was.
	Undone *Undone
	// Holders are who was found to keep what the node cannot undo, when it looked last.
	Holders []Holder `cbor:",omitempty"`
}

// Undone is how a node came to hold nothing of a volume any more other than by its plugin's word.
type Undone struct {
	Proof  Proof
	Reason string
	By     string // who vouches for it; empty: the node
}

// InventoryPublication is one publication in a node's inventory.
type InventoryPublication struct {
	Alloc    ids.Alloc
	Epoch    Epoch
	Presence Presence
	Wanted   bool
	Path     string // on the node
	ReadOnly bool
	// Received is where the servers' state was when the node received the claim: only a state that continues it can say
	// by its silence that the claim has ended.
	Received lineage.Point
}

// Quiet reports an entry that holds nothing any more: it stays only until the servers acknowledged it.
func (e *InventoryEntry) Quiet() bool {
	if e.Staging.Exists() {
		return false
	}
	for i := range e.Publications {
		if e.Publications[i].Presence.Exists() {
			return false
		}
	}
	return true
}

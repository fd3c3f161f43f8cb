package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/model/volume"
)

// Methods that nodes call, and reads over nodes; served by the server half.
var (
	NodeRegister        = Unary[NodeRegisterRequest, NodeRegisterReply]("Node.Register")
	NodeHeartbeat       = Unary[NodeHeartbeatRequest, NodeHeartbeatReply]("Node.Heartbeat")
	NodeAllocs          = Bidi[NodeAllocsRequest, Empty, AllocSet]("Node.Allocs")
	NodeAllocsKnown     = Unary[NodeAllocsKnownRequest, NodeAllocsKnownReply]("Node.AllocsKnown")
	NodeUpdate          = Unary[NodeUpdateRequest, NodeUpdateReply]("Node.UpdateAllocs")
	NodeInventory       = Unary[InventoryReport, InventoryReply]("Node.Inventory")
	NodeInventoryKnown  = Unary[InventoryDigest, InventoryKnown]("Node.InventoryKnown")
	NodeGrants          = Unary[GrantsRequest, GrantsReply]("Node.Grants")
	NodeControllerCalls = Bidi[ControllerCallsRequest, ControllerResult, ControllerCall]("Node.ControllerCalls")
	NodeList            = Unary[Query, List[*node.Node]]("Node.List")
	NodeGet             = Unary[Ref[ids.Node], NodeGetReply]("Node.Get")
	NodeAllocList       = Unary[Ref[ids.Node], AllocListReply]("Node.AllocList")
	NodeLeave           = Unary[NodeLeaveRequest, Empty]("Node.Leave")
	NodeRebootConfirm   = Unary[RebootConfirmRequest, RebootConfirmReply]("Node.RebootConfirm")
	NodeReadmit         = Unary[ReadmitRequest, ReadmitReply]("Node.Readmit")
	NodeEligibility     = Unary[NodeEligibilityRequest, NodeEligibilityReply]("Node.Eligibility")
)

// NodeGetReply is a node with what is mounted there and nobody can name, what it says to hold although nothing on it
// has a claim of it, and the agents that are refused because another one acts as the node.
type NodeGetReply struct {
	Meta
	Item      *node.Node
	Unknown   []volume.UnknownMount
	Unclaimed []*volume.InventoryEntry
	Refused   []RefusedAgent
}

// RefusedAgent is an agent that shows a node's identity and is not obeyed: Why is copy, superseded or waits.
type RefusedAgent struct {
	Address     string
	Boot        string // of its kernel
	Why         node.Admission
	Since, Last time.Time // it was refused first, and last
	Obeyed      string    // the address of the one that is
	ObeyedSince time.Time
}

// NodeIdentity authenticates a node on every call: the id and the secret that only it and (hashed) the servers know.
type NodeIdentity struct {
	Node   ids.Node
	Secret Secrets // one value, "id"
	// Session is the epoch of the agent start that calls; empty before it was accepted, and in an older Berth.
	Session string
}

// secretValue is the name of the one value in a node's identity.
const secretValue = "id"

// HashNodeSecret is the form in which the servers know a node's secret.
func HashNodeSecret(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// Shown is the secret that the caller shows; empty: none.
func (n NodeIdentity) Shown() string { return n.Secret.Values[secretValue] }

// Proves reports whether the secret that is shown is the one of a hash.
func (n NodeIdentity) Proves(hash string) bool {
	return subtle.ConstantTimeCompare([]byte(HashNodeSecret(n.Shown())), []byte(hash)) == 1
}

// Calling is the node that makes the call.
func (n NodeIdentity) Calling() ids.Node { return n.Node }

// NodeRegisterRequest says what the node is now: at start and whenever its fingerprint changed (CSI instances
// included). Seen is the highest state that it acted on. Holds: it has tasks, mounts or records that it answers for, so
// that it follows no state of another incarnation.
type NodeRegisterRequest struct {
	NodeIdentity
	Info  *node.Node
	Seen  lineage.Point
	Holds bool
	// Start is the agent start that registers; nil from an older Berth.
	Start *AgentStart
	// Readmit is the token of a readmission, one value, "token"; without one the agent has none.
	Readmit Secrets
}

// ReadmitToken is the name of the value in NodeRegisterRequest.Readmit and ReadmitReply.
const ReadmitToken = "token"

// AgentStart is one link of the chain of a node's sessions. At is the state that accepted the session before it: only
// one that continues it knows how the chain went on.
type AgentStart struct {
	node.Registration
	At lineage.Point
}

// NodeRegisterReply starts the session.
type NodeRegisterReply struct {
	Index        uint64
	HeartbeatTTL time.Duration
	Incarnation  string // of the cluster's state
	// Parents are the incarnations that it goes on from: who has followed one of them follows it.
	Parents   []string
	ClusterID string
	// At is the state that accepted the session. Silence is how long it is held open without a word of the node.
	At      lineage.Point
	Silence time.Duration
	// Session is the epoch of the accepted agent start; empty: these servers know of none.
	Session string
	// Servers are those of the cluster that others reach; none: the server does not say.
	Servers []trust.ServerAt `cbor:",omitempty"`
}

// NodeHeartbeatRequest renews the node's time to live.
type NodeHeartbeatRequest struct{ NodeIdentity }

// NodeHeartbeatReply: Reregister asks for a full registration (the server does not know the node, or it was down).
type NodeHeartbeatReply struct {
	TTL        time.Duration
	Reregister bool
	Index      uint64
	// Incarnation is that of the servers' state: another one than that of the registration is registered in anew.
	// Empty: the server does not say.
	Incarnation string
	// Servers are those of the cluster that others reach; none: the server does not say.
	Servers []trust.ServerAt `cbor:",omitempty"`
	// RootsAsOf is the index of the servers' state at which the roots of the cluster last changed; 0: not said.
	RootsAsOf uint64 `cbor:",omitempty"`
}

// NodeLeaveRequest says that the agent ends while its node holds nothing: no process, no mount, no volume.
type NodeLeaveRequest struct {
	NodeIdentity
	// ForGood: it is not to be waited for.
	ForGood bool `cbor:",omitempty"`
}

// RebootConfirmRequest is a person's word that nothing runs under a node's identity but its accepted session; while
// that one is silent, that it does not run any more either.
type RebootConfirmRequest struct {
	Node   ids.Node
	Reason string
	By     string // who says so, as the API knows them
}

// RebootConfirmReply: Resolved is the doubt that has ended. Open: the node's next registration is accepted.
type RebootConfirmReply struct {
	Index    uint64
	Resolved string
	Open     bool
}

// ReadmitRequest is a person's permission that an agent which has lost its store takes up the identity of a node.
type ReadmitRequest struct {
	Node   ids.Node
	Reason string
	By     string        // who says so, as the API knows them
	TTL    time.Duration // how long the token can be used; 0: an hour
}

// ReadmitReply hands the token over, one value, "token"; nobody keeps it.
type ReadmitReply struct {
	Index   uint64
	Token   Secrets
	Expires time.Time
}

// NodeAllocsRequest opens the stream of a node's allocs. Seen is the highest state that the node acted on.
type NodeAllocsRequest struct {
	NodeIdentity
	Seen lineage.Point
}

// AllocSet is one push: first the full set, then only what changed. At is the state that it was read from.
type AllocSet struct {
	At lineage.Point
	// Relation says, in a full set, how that state stands to what the node has seen.
	Relation lineage.Relation
	Full     bool
	// Restored: allocs that were made before this index were brought back by a restore that the node has not answered
	// yet. Of those it has no record of it begins none: they are lost. 0: there was none.
	Restored uint64
	Bundles  Bundles     // new, or changed by the servers
	Gone     []ids.Alloc // no longer known; destroy only after NodeAllocsKnown confirmed it by id
	// Suspended are all allocs of the node with a volume that nothing may be begun with: what runs of them runs on, and
	// no task of them is started or restarted. In every set, full or not.
	Suspended []SuspendedAlloc
}

// SuspendedAlloc is an alloc with a volume that nothing may be begun with, and why, for people.
type SuspendedAlloc struct {
	Alloc  ids.Alloc
	Reason string
}

// ReceivedAlloc names an alloc with the state under which the node received it, or saw it last.
type ReceivedAlloc struct {
	Alloc    ids.Alloc
	Received lineage.Point
}

// NodeAllocsKnownRequest asks, by id, what became of allocs that a set left out.
type NodeAllocsKnownRequest struct {
	NodeIdentity
	Allocs []ReceivedAlloc
}

// NodeAllocsKnownReply is read at a state that the leader confirmed. Removed are those that this state knew and knows
// no longer; Orphans those that it does not know and never did: their absence proves nothing.
type NodeAllocsKnownReply struct {
	At      lineage.Point
	Removed []ids.Alloc
	Orphans []ids.Alloc
}

// NodeUpdateRequest pushes client states of allocs: ID, ClientStatus, ClientDescription, TaskStates, Healthy,
// HealthyAt. Inventory, if any, is taken over in the same step: its own identity is empty.
type NodeUpdateRequest struct {
	NodeIdentity
	Allocs    []*alloc.Alloc
	Inventory *InventoryReport
}

// NodeUpdateReply: Inventory answers that of the request; nil: it was not looked at.
type NodeUpdateReply struct {
	Written
	Inventory *InventoryReply
}

// InventoryReport is what a node knows of its stagings and publications: everything at each connect (Full), then what
// changed. At is the alloc set that the node had acted on when it was taken: a desired-stop claim with an epoch at or
// below its index that a full inventory does not name has been released. Of a state that this one does not continue it
// says what there is, and nothing by silence.
type InventoryReport struct {
	NodeIdentity
	Full bool
	At   lineage.Point
	// Prev is the Head of the reply to the report before; the first of a session does not know it and receives it.
	Prev    uint64
	Entries []volume.InventoryEntry
	// Unknown lists, in every report whole, what is mounted where only plugins mount and cannot be named.
	Unknown []volume.UnknownMount
}

// InventoryReply acknowledges: quiet entries listed here may be erased by the node. Void lists epochs that were ended
// by proof: the node cleans those up first.
type InventoryReply struct {
	Index uint64
	// Head names the newest report that the servers took over from this node. Stale: this one was not, because it does
	// not follow Head; send everything again with Prev = Head.
	Head  uint64
	Stale bool
	Acked []volume.StagingKey
	Void  []VoidClaim
	// Owners are the providers that have what the report says another one made.
	Owners []VolumeOwner
	// Claims are those on the node that what it cannot name may belong to.
	Claims []volume.Claim
}

// VolumeOwner says which provider has a volume.
type VolumeOwner struct {
	volume.StagingKey
	Provider string
}

// VoidClaim is a claim that ended by proof while this node still knew of it.
type VoidClaim struct {
	volume.PublicationKey
	Epoch volume.Epoch
}

// GrantsRequest asks for the mount permissions of an alloc. The call blocks until all are there, the reasons for
// waiting changed since Seen, or Wait ended.
type GrantsRequest struct {
	NodeIdentity
	Alloc ids.Alloc
	Wait  time.Duration
	Seen  string // GrantsReply.Token of the previous answer
}

// GrantsReply: Ready with all grants, or what is waited for, one sentence per volume.
type GrantsReply struct {
	Ready   bool
	Grants  []Grant
	Waiting []WaitReason
	Token   string
	// Session is the agent start that the permissions are for.
	Session string
}

// WaitReason says what a volume request of an alloc waits for.
type WaitReason struct {
	Alias  string
	Volume volume.ID
	Reason string
	Since  time.Time
	// UnderWay: it is a controller call that was made, or is about to be, and nothing stands in the way.
	UnderWay bool
}

// Grant is all that a node needs to stage and publish one volume for one alloc.
type Grant struct {
	Alias          string
	Volume         volume.ID
	Key            volume.PublicationKey
	Epoch          volume.Epoch
	Generation     uint64 // of the attachment; 0 when the plugin does not attach
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	ReadOnly       bool
	VolumeContext  map[string]string
	PublishContext map[string]string
	NeedsStage     bool
	Secrets        Secrets
	// Capacity is the size the volume should have; ExpandNode asks for NodeExpandVolume after staging.
	Capacity   int64
	ExpandNode bool
	// Ownership is whom the volume shall belong to; nil: its specification does not say. Shared: an alloc of another
	// node, which was given it before or has begun, may use it.
	Ownership *volume.Ownership
	Shared    bool
	// MountGroup is the group that the plugin gives the volume to (CSI spec, volume_mount_group); empty: none.
	MountGroup string
	// Provider has the volume; empty: none is noted.
	Provider string
	// At is the servers' state that the permission was read from.
	At lineage.Point
}

// ControllerCallsRequest opens the stream of controller calls for this node: all plugins whose controller instance is
// ready here are known from the registration.
type ControllerCallsRequest struct {
	NodeIdentity
	// Credits is how many calls of one plugin are made at once, of those that make and of those that undo something.
	Credits   int
	OwnLimits bool // as many are made as the plugin's job says, where it says it
}

// Kinds of controller calls.
const (
	CallAttach         = "attach"
	CallDetach         = "detach"
	CallCreate         = "create"
	CallDelete         = "delete"
	CallExpand         = "expand"
	CallSnapshot       = "snapshot"
	CallDeleteSnapshot = "delete-snapshot"
	CallRead           = "read"        // of one volume as its provider has it; alpha
	CallNodeExpand     = "node-expand" // executed by the node keeper on a node where the volume is staged
)

// ControllerCall is one call that the server asks this node to make. The record that asked for it is Uncertain already.
// The node makes one call of a volume at a time and reports its end with the generation that it was asked under. What
// it does not begin at once it reports as unsent.
type ControllerCall struct {
	Kind       string
	Subject    string // volume ns/id or snapshot id, with the node for attach and detach
	Generation uint64
	Plugin     ids.Plugin
	Provider   string // that the plugin must be of; empty: whichever serves it
	Timeout    time.Duration
	Cancel     bool // end the call that is under way; its end is reported as always
	Attach     *AttachArgs
	Create     *CreateArgs
	Volume     *VolumeArgs
	Snapshot   *SnapshotArgs
	Secrets    Secrets
}

// Undoes tells calls that undo something from those that make something.
func (c *ControllerCall) Undoes() bool {
	return c.Kind == CallDetach || c.Kind == CallDelete || c.Kind == CallDeleteSnapshot
}

// ExternalID is the provider's volume that a call is about; empty for one that it is to create.
func (c *ControllerCall) ExternalID() string {
	switch {
	case c.Attach != nil:
		return c.Attach.ExternalID
	case c.Volume != nil:
		return c.Volume.ExternalID
	case c.Snapshot != nil:
		return c.Snapshot.SourceID
	}
	return ""
}

// AttachArgs are the arguments of ControllerPublish and ControllerUnpublish.
type AttachArgs struct {
	ExternalID     string
	StorageNode    string
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	ReadOnly       bool
	VolumeContext  map[string]string
}

// CreateArgs are the arguments of CreateVolume.
type CreateArgs struct {
	Name           string
	Spec           volume.Spec
	SourceVolume   string // external id
	SourceSnapshot string
}

// VolumeArgs are the arguments of DeleteVolume, ControllerExpandVolume and NodeExpandVolume. HiddenID stands for the
// external id in a deletion of a volume whose id cannot be kept (volume.Status).
type VolumeArgs struct {
	Volume         volume.ID
	ExternalID     string
	HiddenID       string
	Min, Max       int64
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
}

// SnapshotArgs are the arguments of CreateSnapshot and DeleteSnapshot.
type SnapshotArgs struct {
	Name       string
	SourceID   string // external id of the volume
	SnapshotID string // external id of the snapshot
	HiddenID   string // instead of it, of one whose id cannot be kept
	Parameters map[string]string
}

// ControllerResult tells the end of a call. Err nil: done. Uncertain: the end is not known. Unsent: the node is at
// another call of the volume, or at as many as it makes at once; nothing was begun.
type ControllerResult struct {
	Unsent         bool
	Kind           string
	Subject        string
	Generation     uint64
	Err            *CallError
	PublishContext map[string]string
	Created        *CreatedVolume
	Snapshot       *CreatedSnapshot
	Capacity       int64
	NodeExpansion  bool
	Read           *volume.Listed
}

// CallError is a failed call with all that decides what comes next.
type CallError struct {
	Kind      uint8  // fault.Kind
	Code      uint32 // gRPC code of the plugin, 0 none
	Uncertain bool
	Retry     volume.Retry
	Message   string // scrubbed, for people
	Hint      string
}

// CreatedVolume is what CreateVolume answered. HiddenID comes with an error, and nothing else: the volume was made, and
// can only be deleted.
type CreatedVolume struct {
	HiddenID   string
	ExternalID string
	Capacity   int64
	Context    map[string]string
	Topologies []map[string]string
}

// CreatedSnapshot is what CreateSnapshot answered. HiddenID comes with an error, and nothing else, as in CreatedVolume.
type CreatedSnapshot struct {
	HiddenID   string
	ExternalID string
	SourceID   string
	Size       int64
	CreateTime int64
	Ready      bool
}

// NodeEligibilityRequest sets a node eligible or ineligible.
type NodeEligibilityRequest struct {
	Node        ids.Node
	Eligibility string
}

// NodeEligibilityReply names the evaluations that it caused.
type NodeEligibilityReply struct {
	Index           uint64
	NodeModifyIndex uint64
	Evals           []ids.Eval
	EvalCreateIndex uint64
}

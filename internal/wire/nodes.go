package wire

import (
	"strconv"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
)

func utoa(u uint64) string { return strconv.FormatUint(u, 10) }

// Methods that nodes call, and reads over nodes; served by the server half.
var (
	NodeRegister    = Unary[NodeRegisterRequest, NodeRegisterReply]("Node.Register")
	NodeHeartbeat   = Unary[NodeHeartbeatRequest, NodeHeartbeatReply]("Node.Heartbeat")
	NodeAllocs      = Bidi[NodeAllocsRequest, Empty, AllocSet]("Node.Allocs")
	NodeAllocsKnown = Unary[NodeAllocsKnownRequest, NodeAllocsKnownReply]("Node.AllocsKnown")
	NodeUpdate      = Unary[NodeUpdateRequest, Written]("Node.UpdateAllocs")
	NodeInventory   = Unary[InventoryReport, InventoryReply]("Node.Inventory")
	NodeGrants      = Unary[GrantsRequest, GrantsReply]("Node.Grants")
	NodeWork        = Bidi[WorkRequest, WorkReport, Work]("Node.Work")
	NodeList        = Unary[Query, NodeListReply]("Node.List")
	NodeGet         = Unary[NodeRef, NodeReply]("Node.Get")
	NodeAllocList   = Unary[NodeRef, AllocListReply]("Node.AllocList")
	NodeEligibility = Unary[NodeEligibilityRequest, NodeEligibilityReply]("Node.Eligibility")
)

// NodeIdentity authenticates a node on every call: the id and the secret that only it and (hashed) the servers know.
type NodeIdentity struct {
	Node   ids.Node
	Secret Secrets // one value, "id"
}

// NodeRegisterRequest says what the node is now: at start and whenever its fingerprint changed (CSI instances included).
type NodeRegisterRequest struct {
	NodeIdentity
	Info *node.Node
}

// NodeRegisterReply starts the session.
type NodeRegisterReply struct {
	Index        uint64
	HeartbeatTTL time.Duration
	Incarnation  string // of the cluster's state
	ClusterID    string
}

// NodeHeartbeatRequest renews the node's time to live.
type NodeHeartbeatRequest struct{ NodeIdentity }

// NodeHeartbeatReply: Reregister asks for a full registration (the server does not know the node, or it was down).
type NodeHeartbeatReply struct {
	TTL        time.Duration
	Reregister bool
	Index      uint64
}

// NodeAllocsRequest opens the stream of a node's allocs.
type NodeAllocsRequest struct{ NodeIdentity }

// AllocSet is one push: first the full set, then only what changed. Index is that of the state it was read from.
type AllocSet struct {
	Index       uint64
	Incarnation string
	Full        bool
	Bundles     []alloc.Bundle // new, or changed by the servers
	Gone        []ids.Alloc    // no longer known; destroy only after NodeAllocsKnown confirmed it by id
}

// NodeAllocsKnownRequest asks, by id, whether allocs are unknown to the servers.
type NodeAllocsKnownRequest struct {
	NodeIdentity
	Allocs []ids.Alloc
}

// NodeAllocsKnownReply lists those that the servers do not know, read at an index that the leader confirmed.
type NodeAllocsKnownReply struct {
	Index   uint64
	Unknown []ids.Alloc
}

// NodeUpdateRequest pushes client states of allocs: ID, ClientStatus, ClientDescription, TaskStates, Healthy, HealthyAt.
type NodeUpdateRequest struct {
	NodeIdentity
	Allocs []*alloc.Alloc
}

// InventoryReport is what a node knows of its stagings and publications: everything at each connect (Full), then what
// changed. AllocIndex is the index of the alloc set it was taken at: a desired-stop claim with an epoch at or below it
// that a full inventory does not name has been let go.
type InventoryReport struct {
	NodeIdentity
	Full       bool
	AllocIndex uint64
	// Prev is the Head of the reply to the report before; the first of a session does not know it and is told.
	Prev    uint64
	Entries []volume.InventoryEntry
}

// InventoryReply acknowledges: quiet entries listed here may be erased by the node. Void lists epochs that were ended by
// proof: the node cleans those up first.
type InventoryReply struct {
	Index uint64
	// Head names the newest report that the servers took over from this node. Stale: this one was not, because it does
	// not follow Head; send everything again with Prev = Head.
	Head  uint64
	Stale bool
	Acked []volume.StagingKey
	Void  []VoidClaim
}

// VoidClaim is a claim that ended by proof while this node still knew of it.
type VoidClaim struct {
	volume.PublicationKey
	Epoch volume.Epoch
}

// GrantsRequest asks for the mount permissions of an alloc. The call blocks until all are there, the reasons for waiting
// changed since Seen, or Wait ended.
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
}

// WaitReason says what a volume request of an alloc waits for.
type WaitReason struct {
	Alias  string
	Volume volume.ID
	Reason string
	Since  time.Time
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
}

// WorkRequest opens the stream of controller work for this node: all plugins whose controller instance is ready here are
// known from the registration.
type WorkRequest struct{ NodeIdentity }

// Kinds of controller work.
const (
	WorkAttach         = "attach"
	WorkDetach         = "detach"
	WorkCreate         = "create"
	WorkDelete         = "delete"
	WorkExpand         = "expand"
	WorkSnapshot       = "snapshot"
	WorkDeleteSnapshot = "delete-snapshot"
	WorkNodeExpand     = "node-expand" // executed by the node keeper on a node where the volume is staged
)

// Work is one controller call that the server asks this node to make. The record that asked for it is Uncertain
// already. The node makes the call once per (Kind, Subject, Generation) at a time and reports its end; a repeated work
// of the same generation is the same call.
type Work struct {
	Kind       string
	Subject    string // volume ns/id or snapshot id, with the node for attach and detach
	Generation uint64
	Plugin     ids.Plugin
	Timeout    time.Duration
	Cancel     bool // withdraw: stop the call if it has not been sent
	Attach     *AttachWork
	Create     *CreateWork
	Volume     *VolumeWork
	Snapshot   *SnapshotWork
	Secrets    Secrets
}

// AttachWork are the arguments of ControllerPublish and ControllerUnpublish.
type AttachWork struct {
	ExternalID     string
	StorageNode    string
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	ReadOnly       bool
	VolumeContext  map[string]string
}

// CreateWork are the arguments of CreateVolume.
type CreateWork struct {
	Name           string
	Spec           volume.Spec
	SourceVolume   string // external id
	SourceSnapshot string
}

// VolumeWork are the arguments of DeleteVolume, ControllerExpandVolume and NodeExpandVolume.
type VolumeWork struct {
	Volume         volume.ID
	ExternalID     string
	Min, Max       int64
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
}

// SnapshotWork are the arguments of CreateSnapshot and DeleteSnapshot.
type SnapshotWork struct {
	Name       string
	SourceID   string // external id of the volume
	SnapshotID string // external id of the snapshot
	Parameters map[string]string
}

// WorkReport tells the end of a call. Err nil: done. Uncertain: the end is not known.
type WorkReport struct {
	Kind           string
	Subject        string
	Generation     uint64
	Err            *WorkError
	PublishContext map[string]string
	Created        *CreatedVolume
	Snapshot       *CreatedSnapshot
	Capacity       int64
	NodeExpansion  bool
}

// WorkError is a failed call with all that decides what comes next.
type WorkError struct {
	Kind      uint8  // fault.Kind
	Code      uint32 // gRPC code of the plugin, 0 none
	Uncertain bool
	// Retry is the class of port/csi: "backoff", "slow", "never", "verify", "secrets".
	Retry   string
	Message string // scrubbed, for people
	Hint    string
}

// CreatedVolume is what CreateVolume answered.
type CreatedVolume struct {
	ExternalID string
	Capacity   int64
	Context    map[string]string
	Topologies []map[string]string
}

// CreatedSnapshot is what CreateSnapshot answered.
type CreatedSnapshot struct {
	ExternalID string
	SourceID   string
	Size       int64
	CreateTime int64
	Ready      bool
}

// NodeRef names a node in a read.
type NodeRef struct {
	Query
	Node ids.Node
}

// NodeReply is one node or nil.
type NodeReply struct {
	Meta
	Node *node.Node
}

// NodeListReply is a page of nodes.
type NodeListReply struct {
	Meta
	Nodes     []*node.Node
	NextToken string
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

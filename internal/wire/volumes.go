package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// Methods over volumes, snapshots and plugins, served by the server half.
var (
	VolumeCreate     = Unary[VolumeWriteRequest, VolumeWriteReply]("Volume.Create")
	VolumeRegister   = Unary[VolumeWriteRequest, VolumeWriteReply]("Volume.Register")
	VolumeExpand     = Unary[VolumeExpandRequest, VolumeWriteReply]("Volume.Expand")
	VolumeDeregister = Unary[VolumeDeleteRequest, Written]("Volume.Deregister")
	VolumeDelete     = Unary[VolumeDeleteRequest, Written]("Volume.Delete")
	VolumeDetach     = Unary[VolumeDetachRequest, Written]("Volume.Detach")
	VolumeRelease    = Unary[VolumeReleaseRequest, Written]("Volume.Release")
	VolumeGet        = Unary[Ref[ids.Volume], One[VolumeView]]("Volume.Get")
	VolumeUsages     = Unary[Ref[ids.Volume], VolumeUsageReply]("Volume.Usage")
	VolumeList       = Unary[VolumeListRequest, VolumeLines]("Volume.List")
	VolumeExternal   = Unary[ExternalListRequest, ProviderList[ExternalVolume]]("Volume.External")
	SnapshotCreate   = Unary[SnapshotCreateRequest, SnapshotReply]("Snapshot.Create")
	SnapshotDelete   = Unary[SnapshotDeleteRequest, Written]("Snapshot.Delete")
	SnapshotList     = Unary[SnapshotListRequest, ProviderList[*volume.Snapshot]]("Snapshot.List")
	PluginGet        = Unary[Ref[ids.Plugin], One[PluginView]]("Plugin.Get")
	PluginRebind     = Unary[PluginRebindRequest, PluginRebindReply]("Plugin.Rebind")
	PluginList       = Unary[Query, List[*PluginView]]("Plugin.List")
)

// VolumeWriteRequest creates (asks the provider) or registers (adopts) a volume. The same request again is "unchanged".
type VolumeWriteRequest struct {
	Volume     volume.ID
	Spec       volume.Spec
	ExternalID string            // register
	Context    map[string]string // register
	Secrets    Secrets
	// Wait bounds how long the call waits for the provider; the intent goes on after it. 0: 2 minutes.
	Wait time.Duration
}

// Accepted is the outcome of a write whose caller named how long it waits, when the work goes on after that.
const Accepted = "accepted"

// VolumeWriteReply: Outcome is "created", "registered", "updated", "expanded", "unchanged" or "accepted"; Changed names
// what differs.
type VolumeWriteReply struct {
	Index    uint64
	Volume   *volume.Volume
	Outcome  string
	Changed  []string
	Warnings []string
	Waits    string // what an accepted one waits for
}

// VolumeExpandRequest asks for more room.
type VolumeExpandRequest struct {
	Volume   volume.ID
	Min, Max int64 // bytes
	Wait     time.Duration
}

// VolumeDeleteRequest deletes (provider too) or deregisters (forgets).
type VolumeDeleteRequest struct {
	Volume  volume.ID
	Force   bool
	Reason  string // audited; required with Force
	Secrets Secrets
	Wait    time.Duration
}

// VolumeDetachRequest asks that the volume leave a node.
type VolumeDetachRequest struct {
	Volume volume.ID
	Node   ids.Node
	// Attest is a person's word, with the reason, that the node is dead and cannot write any more. It is recorded and
	// ends the node's claims on the volume; empty: none.
	Attest string
	By     string // who says so, as the API knows them
}

// VolumeReleaseRequest is a person's word that nothing is left of a volume on a node: the node has unmounted it, and
// the plugin's unstaging keeps failing.
type VolumeReleaseRequest struct {
	Volume volume.ID
	Node   ids.Node
	Reason string
	By     string // who says so, as the API knows them
}

// VolumeView is a volume with all that refers to it. State are sentences from volume.Describe.
type VolumeView struct {
	Volume        *volume.Volume
	Plugin        *PluginView
	Claims        []*volume.Claim
	Attachments   []*volume.Attachment
	Allocs        []*alloc.Alloc
	OnNodes       map[ids.Node]volume.InventoryEntry
	Ended         []*volume.ProvenEnd // claims that were ended by proof, the oldest first
	State         []string
	Schedulable   bool
	Unschedulable string // why not
}

// VolumeUsageReply is what each node that uses a volume has measured of it. One that does not answer says why in its
// Error.
type VolumeUsageReply struct {
	// Abnormal: the plugin on one of them says so of the volume's condition, or the provider's list does.
	Abnormal bool
	Nodes    []VolumeUsage
}

// VolumeListRequest lists volumes.
type VolumeListRequest struct {
	Query
	Plugin ids.Plugin
	Node   ids.Node
	// Lines: the reply has lines. Agents of earlier versions do not ask for them.
	Lines bool
}

// VolumeLines is a page of a list of volumes: lines with the plugins that they name, without instances and allocs. Who
// does not ask for lines gets the whole views, and so does everybody from servers of earlier versions.
type VolumeLines struct {
	Meta
	Items     []*VolumeView
	Lines     []VolumeLine
	Plugins   map[ids.Plugin]*PluginView
	NextToken string
}

// Complete makes the lines that servers of an earlier version do not send.
func (l *VolumeLines) Complete() {
	if l.Plugins == nil {
		l.Plugins = map[ids.Plugin]*PluginView{}
	}
	for _, v := range l.Items {
		l.Lines = append(l.Lines, v.Line())
		l.Plugins[v.Volume.Spec.Plugin] = v.Plugin
	}
}

// VolumeLine is what a list shows of a volume. What is zero is left out on the wire: lists are long.
type VolumeLine struct {
	volume.ID
	Name           string                `cbor:",omitempty"`
	Plugin         ids.Plugin            `cbor:",omitempty"`
	ExternalID     string                `cbor:",omitempty"`
	Provider       string                `cbor:",omitempty"`
	Topologies     []plugin.Topology     `cbor:",omitempty"`
	AccessMode     volume.AccessMode     `cbor:",omitempty"`
	AttachmentMode volume.AttachmentMode `cbor:",omitempty"`
	Readers        int                   `cbor:",omitempty"` // claims
	Writers        int                   `cbor:",omitempty"`
	Schedulable    bool                  `cbor:",omitempty"`
	CreateIndex    uint64
	ModifyIndex    uint64
	CreateTime     int64 `cbor:",omitempty"` // nanoseconds since the epoch
	ModifyTime     int64 `cbor:",omitempty"`
}

// Line is what a list shows of the volume.
func (v *VolumeView) Line() VolumeLine {
	m := v.Volume
	line := VolumeLine{
		ID:             m.ID,
		Name:           m.Name(),
		Plugin:         m.Spec.Plugin,
		ExternalID:     m.Status.ExternalID,
		Provider:       m.Status.Provider,
		Topologies:     m.Status.Topologies,
		AccessMode:     m.Status.AccessMode,
		AttachmentMode: m.Status.AttachmentMode,
		Schedulable:    v.Schedulable,
		CreateIndex:    m.CreateIndex,
		ModifyIndex:    m.ModifyIndex,
		CreateTime:     m.CreateTime,
		ModifyTime:     m.ModifyTime,
	}
	if p := v.Plugin; p != nil && line.Provider == "" {
		line.Provider = p.Record.Provider
	}
	for _, c := range v.Claims {
		switch {
		case c.State == volume.Queued: // it waits for its turn
		case c.Reads():
			line.Readers++
		default:
			line.Writers++
		}
	}
	return line
}

// ExternalListRequest asks a plugin for what its provider has.
type ExternalListRequest struct {
	Plugin    ids.Plugin
	PerPage   int
	NextToken string
}

// ExternalVolume is one volume in the provider's eyes.
type ExternalVolume struct {
	ExternalID     string
	Capacity       int64
	Context        map[string]string
	PublishedNodes []string
	Abnormal       bool
	Status         string
	CloneID        string
	SnapshotID     string
}

// ProviderList is a page; Incomplete names nodes that could not be asked (node-scoped plugins).
type ProviderList[T any] struct {
	Items      []T
	NextToken  string
	Incomplete []string
}

// SnapshotCreateRequest cuts a snapshot of a volume.
type SnapshotCreateRequest struct {
	Volume     volume.ID
	Name       string
	Parameters map[string]string
	Secrets    Secrets
	Wait       time.Duration
	// Following: the request repeats one that was accepted, to hear what came of it. It begins no try of its own.
	Following bool
}

// SnapshotReply is the snapshot.
type SnapshotReply struct {
	Index    uint64
	Snapshot *volume.Snapshot
	Outcome  string // created, unchanged, accepted
	Warnings []string
	Waits    string // what an accepted one waits for
}

// SnapshotDeleteRequest deletes a snapshot by the provider's id.
type SnapshotDeleteRequest struct {
	Namespace  ids.Namespace
	Plugin     ids.Plugin
	SnapshotID string
	Secrets    Secrets
	Wait       time.Duration
}

// SnapshotListRequest lists a plugin's snapshots as its provider has them.
type SnapshotListRequest struct {
	Plugin    ids.Plugin
	Secrets   Secrets
	PerPage   int
	NextToken string
}

// PluginRebindRequest gives what another provider of the plugin had to Provider, which serves it now. From may be left
// out when there is only one.
type PluginRebindRequest struct {
	Plugin   ids.Plugin
	Provider string
	From     string
}

// PluginRebindReply says whose things were given over, and how many.
type PluginRebindReply struct {
	Index uint64
	From  string
	Count int
}

// PluginView is a plugin with its instances; expected counts come from the jobs that run it.
type PluginView struct {
	Record              *plugin.Record
	Instances           []*plugin.Instance
	ControllerRequired  bool
	ControllersExpected int
	NodesExpected       int
	ControllersHealthy  int
	NodesHealthy        int
	Allocs              []*alloc.Alloc
	// Orphans says of which allocs that run it nobody decides, and what a person can do; not each is an instance.
	Orphans map[ids.Alloc]string
}

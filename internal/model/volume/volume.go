package volume

import (
	"cmp"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
)

// AccessMode says who may use a volume how; values are the jobspec's.
type AccessMode string

// Access modes of CSI volumes.
const (
	SingleNodeReader      AccessMode = "single-node-reader-only"
	SingleNodeWriter      AccessMode = "single-node-writer"
	MultiNodeReader       AccessMode = "multi-node-reader-only"
	MultiNodeSingleWriter AccessMode = "multi-node-single-writer"
	MultiNodeMultiWriter  AccessMode = "multi-node-multi-writer"
)

// Valid reports a known mode.
func (m AccessMode) Valid() bool {
	switch m {
	case SingleNodeReader, SingleNodeWriter, MultiNodeReader, MultiNodeSingleWriter, MultiNodeMultiWriter:
		return true
	}
	return false
}

// SingleNode reports modes that bind a volume to one node at a time.
func (m AccessMode) SingleNode() bool { return m == SingleNodeReader || m == SingleNodeWriter }

// ReaderOnly reports modes under which nobody writes.
func (m AccessMode) ReaderOnly() bool { return m == SingleNodeReader || m == MultiNodeReader }

// AttachmentMode is file-system or block-device.
type AttachmentMode string

// Attachment modes.
const (
	FileSystem  AttachmentMode = "file-system"
	BlockDevice AttachmentMode = "block-device"
)

// Valid reports a known mode.
func (m AttachmentMode) Valid() bool { return m == FileSystem || m == BlockDevice }

// Capability is a use that a volume was asked for.
type Capability struct {
	AccessMode     AccessMode
	AttachmentMode AttachmentMode
}

// MountOptions of a file-system volume. Flags may be sensitive: they are shown as [REDACTED].
type MountOptions struct {
	FSType     string
	MountFlags []string
}

// ID names a volume in the cluster.
type ID struct {
	Namespace ids.Namespace
	ID        ids.Volume
}

// Typed is how the arguments of a command name it.
func (i ID) Typed() string { return ids.Typed(i.Namespace, i.ID) }

func (i ID) String() string { return string(i.Namespace) + "/" + string(i.ID) }

// Phase of a volume's life.
type Phase string

// Phases. A record in Creating or Deleting is an intent: it is written before the provider is asked and outlives
// crashes of everybody. Conflict is terminal: what the provider answered belongs to another registration.
const (
	PhaseCreating  Phase = "creating"
	PhaseReady     Phase = "ready"
	PhaseExpanding Phase = "expanding"
	PhaseDeleting  Phase = "deleting"
	PhaseConflict  Phase = "conflict"
	PhaseFailed    Phase = "failed" // the provider refused, permanently; nothing exists
	// PhaseSuspended is never stored: so the scheduler sees a volume that no claim may begin of now.
	PhaseSuspended Phase = "suspended"
)

// Volume is a unit of storage that the cluster knows.
type Volume struct {
	ID
	UID         string // random; part of the name sent to the provider; stays with the provider's volume
	Spec        Spec
	Status      Status
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // nanoseconds since the epoch
	ModifyTime  int64
}

// Staging is the provider's thing that the volume stands for; its external id is empty as long as nobody knows it.
func (v *Volume) Staging() StagingKey {
	return StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID}
}

// Name is what people read; of one that nobody named, the id.
func (v *Volume) Name() string { return cmp.Or(v.Spec.Name, string(v.ID.ID)) }

// Spec is what the user asked for. Only user commands write it.
type Spec struct {
	Name              string
	Plugin            ids.Plugin
	Capabilities      []Capability
	CapacityMin       int64 // bytes; 0 unset
	CapacityMax       int64
	MountOptions      *MountOptions
	TopologyRequired  []plugin.Topology
	TopologyPreferred []plugin.Topology
	Parameters        map[string]string
	// Secrets names the entry of the secret store that holds the values; empty: none.
	Secrets    string
	SnapshotID string
	CloneID    string
	// Registered: the volume existed before (register); delete still asks the provider, deregister forgets.
	Registered bool
	// Ownership of a file-system volume; nil: a fresh one belongs to the first task's user.
	Ownership *Ownership
}

// Rests reports that what is asked of the provider for a volume that is being made, or grows, waits for its next try:
// none is under way.
func (v *Volume) Rests() bool {
	st := &v.Status
	return (st.Phase == PhaseCreating || st.Phase == PhaseExpanding) && st.Executor == "" && st.LastError != "" &&
		!st.NextTry.IsZero()
}

// Status is what the provider answered and what the cluster derived from it. User updates never touch it.
type Status struct {
	Phase Phase
	// Misplaced, in phase conflict: the provider made the volume where it was not required, or under an id that cannot
	// be kept. It is this record's, nobody is given it, and deleting it deletes it at the provider.
	Misplaced bool
	// Suspended: what the phase intends was asked for before the servers' state was restored, and waits until a person
	// asks for it again. The provider may have given the name or the id to something else since.
	Suspended  bool
	ExternalID string
	// HiddenID stands for an external id that holds values of the volume's secrets, with a reference for each. Then
	// ExternalID is empty: nobody can be given the volume, it can only be deleted.
	HiddenID        string
	Context         map[string]string
	Capacity        int64 // bytes
	Topologies      []plugin.Topology
	Provider        string
	ProviderVersion string
	// HomeNode is where a node-scoped volume lives; empty for cluster scope.
	HomeNode ids.Node
	// SourceExternalID is the volume that this one is cloned from: noted with the intent, it is protected until the
	// clone's end is known.
	SourceExternalID string
	// AccessMode and AttachmentMode are the current ones: set by the first claim, cleared with the last claim and
	// attachment.
	AccessMode     AccessMode
	AttachmentMode AttachmentMode
	MountOptions   *MountOptions // those of the current claims
	// Operation in progress or failed.
	Executor             ids.Node
	Generation           uint64 // of the controller call asked for; reports carry it
	WantedMin, WantedMax int64  // of an expansion in progress: what its calls ask for
	// ExpandSettled: no call of the expansion is under way or of an unknown end, so that another size may take its
	// place. Records from before this was noted say nothing.
	ExpandSettled     bool
	NodeExpandPending bool
	Presence          Presence // of the thing at the provider, for create and delete
	LastError         string
	Tries             int
	NextTry           time.Time
	Since             time.Time // of the phase
	Warnings          []string
	Observed          *Observed // nil: the provider's list says nothing beyond the record, as far as it is known
}

// Snapshot is a provider's copy of a volume at one moment, tracked with the same intents.
type Snapshot struct {
	ID                       string // our record id: a UUID until the provider named it
	ExternalID               string
	HiddenID                 string // as in Status of a volume: it is deleted at once
	Name                     string
	Namespace                ids.Namespace
	Plugin                   ids.Plugin
	Source                   ids.Volume
	SourceExternalID         string
	Provider                 string // that has it; empty in old records
	Parameters               map[string]string
	Secrets                  string
	HomeNode                 ids.Node
	Phase                    Phase
	Suspended                bool     // as in Status of a volume
	Presence                 Presence // of the thing at the provider
	Size                     int64
	CreateTime               int64 // nanoseconds since the epoch, of the provider's cut
	Ready                    bool
	Executor                 ids.Node
	Generation               uint64
	LastError                string
	Tries                    int
	NextTry                  time.Time
	CreateIndex, ModifyIndex uint64
}

// Rests reports that a snapshot that is being made waits for its next try: none is under way.
func (s *Snapshot) Rests() bool {
	return s.Phase == PhaseCreating && s.Executor == "" && s.LastError != "" && !s.NextTry.IsZero()
}

// IDKnown tells whether the provider has said by which id it can be deleted.
func (s *Snapshot) IDKnown() bool { return s.ExternalID != "" || s.HiddenID != "" }

// MayExist tells whether something of the snapshot may be at the provider. Records from before presence was noted tell
// it by who was given the call.
func (s *Snapshot) MayExist() bool {
	return s.Presence.Exists() || s.ExternalID != "" || s.Executor != ""
}

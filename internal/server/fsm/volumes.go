package fsm

import (
	"cmp"
	"fmt"
	"reflect"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

func init() {
	Register[VolumePut]("volume-put", identities, "server/volumes")
	Register[VolumeForget]("volume-forget", identities, "server/volumes")
	Register[PluginLearn]("plugin-learn", 1, "server/claims")
	Register[PluginForget]("plugin-forget", 1, "server/claims")
}

// identities is the schema from which on claims and attachments name the provider's volume, and who holds or needs it
// is asked when a command is applied. Entries from before are applied as they were then: another answer at a replay
// would make another state than the one that the provider knows.
const identities = 3

// reached tells whether the cluster is at a schema.
func reached(tx *state.Tx, schema uint64) bool {
	return tx.Understands(schema)
}

// VolumePut stores a volume if it is still as the proposer saw it. Seen is the modify index that it read; 0: there was
// no such volume.
type VolumePut struct {
	Volume *volume.Volume
	Seen   uint64
	// Sealed is stored with it under the name in Volume.Spec.Secrets; nil: unchanged. A refused write leaves none.
	Sealed []byte
}

// Apply returns the stored *volume.Volume. An external id that another registration has already ends a creation in
// phase conflict, and refuses a registration.
func (c *VolumePut) Apply(tx *state.Tx, st Stamp) (any, error) {
	v := c.Volume
	old := tx.Volume(nil, v.ID)
	if err := cmp.Or(unchanged("volume", v.ID.String(), modifyIndex(old), c.Seen),
		partitions.Exists(&tx.Snap, v.Namespace, "create volume", v.ID.String())); err != nil {
		return nil, err
	}
	if reached(tx, identities) {
		if err := c.guard(tx, old); err != nil {
			return nil, err
		}
	}
	if twin := twinOf(tx, v); twin != nil {
		if old == nil {
			return nil, fault.WithHint(fault.New(fault.Conflict, "register volume", v.ID.String(),
				fmt.Sprintf("the external id %q of plugin %q is registered as volume %s already", v.Status.ExternalID,
					v.Spec.Plugin, twin.ID)),
				"use that volume, or deregister it first")
		}
		v.Status.Phase, v.Status.Misplaced = volume.PhaseConflict, false
		v.Status.LastError = fmt.Sprintf(
			"the provider answered the external id %q, which is registered as volume %s already", v.Status.ExternalID,
			twin.ID)
	}
	if err := tx.Sealable(c.Sealed); err != nil {
		return nil, err
	}
	c.revive(tx, old)
	if old != nil {
		// The current use is the claims' to write; it may have moved on in between only with the index.
		v.Status.AccessMode = old.Status.AccessMode
		v.Status.AttachmentMode = old.Status.AttachmentMode
		v.Status.MountOptions = old.Status.MountOptions
		v.CreateTime = old.CreateTime
	}
	if c.Sealed != nil && v.Spec.Secrets != "" {
		tx.PutSecret(&state.Sealed{Name: v.Spec.Secrets, Data: c.Sealed})
	}
	tx.PutVolume(v)
	if old != nil && old.Spec.Secrets != v.Spec.Secrets {
		dropSecret(tx, old.Spec.Secrets, old.Staging())
	}
	return v, nil
}

// guard holds a change against all that uses the volume, or will use what it is made from.
func (c *VolumePut) guard(tx *state.Tx, old *volume.Volume) error {
	v := c.Volume
	creates := v.Status.Phase == volume.PhaseCreating && (old == nil || old.Status.Phase != volume.PhaseCreating)
	switch {
	case creates:
		if why := suspension.Calls(&tx.Snap, nil, v.Staging()); why != nil {
			return why.Refuse("create volume", v.ID.String())
		}
		return c.guardSources(tx)
	case old == nil:
	case v.Status.Phase == volume.PhaseCreating && old.Status.Presence.Exists() && !sameArguments(old, v):
		return fault.WithHint(fault.New(fault.Busy, "change volume", v.ID.String(),
			"it is being created, and the provider may have begun: a repeated call must ask for the same"),
			"wait until it is ready, or delete it and create it anew")
	case v.Status.Phase == volume.PhaseDeleting && (old.Status.Phase != volume.PhaseDeleting || resumes(old, v)):
		return holders.InUse(&tx.Snap, nil, "delete", old)
	case v.Status.Phase == volume.PhaseExpanding && old.Status.Phase != volume.PhaseExpanding, resumes(old, v):
		return suspension.Calls(&tx.Snap, nil, v.Staging()).Refuse("change volume", v.ID.String())
	}
	return nil
}

// resumes tells whether a person asks again for what was suspended.
func resumes(old, v *volume.Volume) bool { return old.Status.Suspended && !v.Status.Suspended }

// guardSources notes what a volume is made from, and refuses what is about to go.
func (c *VolumePut) guardSources(tx *state.Tx) error {
	v := c.Volume
	going := func(what string) error {
		return fault.WithHint(fault.New(fault.Busy, "create volume", v.ID.String(), what+" is being deleted"),
			"make it from another source")
	}
	if v.Spec.CloneID != "" {
		switch src := holders.Source(&tx.Snap, v); {
		case src == nil || src.Status.ExternalID == "":
			return fault.New(fault.NotFound, "create volume", v.ID.String(),
				fmt.Sprintf("the volume to clone, %q, is not there", v.Spec.CloneID))
		case src.Status.Phase == volume.PhaseDeleting:
			return going("the volume to clone, " + src.ID.String() + ",")
		default:
			v.Status.SourceExternalID = src.Status.ExternalID
		}
	}
	if v.Spec.SnapshotID != "" {
		for sn := range tx.VolumeSnapshotsByExternalID(nil, v.Spec.Plugin, v.Spec.SnapshotID) {
			if sn.Phase == volume.PhaseDeleting {
				return going("snapshot " + sn.Name)
			}
		}
	}
	return nil
}

// sameArguments tells whether two states of a record ask the provider for the same.
func sameArguments(a, b *volume.Volume) bool {
	x, y := a.Spec, b.Spec
	x.Secrets, y.Secrets = "", ""
	return reflect.DeepEqual(x, y)
}

// revive gives a registration of a provider's volume that was forgotten by force its identity back, and the use that
// what is left makes of it. A provider that gives the id of such a volume to a new one has answered in conflict: nodes
// may still hold the old.
func (c *VolumePut) revive(tx *state.Tx, old *volume.Volume) {
	v := c.Volume
	if v.Status.ExternalID == "" || v.OwnsNothing() ||
		old != nil && old.Status.ExternalID == v.Status.ExternalID {
		return
	}
	k := v.Staging()
	t := tx.Tombstone(nil, k)
	if t != nil && old != nil {
		v.Status.Phase, v.Status.Misplaced = volume.PhaseConflict, false
		v.Status.LastError = fmt.Sprintf(
			"the provider answered the external id %q of volume %s, which was forgotten by force and of which something "+
				"is left", v.Status.ExternalID, t.Volume)
		return
	}
	if t != nil {
		if v.Spec.Secrets == "" {
			v.Spec.Secrets = t.Secrets
		}
		if reached(tx, providers) && t.Provider != "" {
			v.Status.Provider = t.Provider // whoever serves the plugin now: what is left is with that one
		}
		v.UID = t.UID
		tx.DeleteTombstone(k)
	}
	for cl := range tx.ClaimsOf(nil, k) {
		*v = *v.UsedAs(cl)
	}
	for a := range tx.AttachmentsOf(nil, k) {
		*v = *v.UsedAs(&volume.Claim{
			AccessMode:     a.AccessMode,
			AttachmentMode: a.AttachmentMode,
			MountOptions:   a.MountOptions,
		})
	}
}

// twinOf returns another registration of the same provider's volume, or nil. Records in conflict don't count: they own
// nothing.
func twinOf(tx *state.Tx, v *volume.Volume) *volume.Volume {
	if v.Status.ExternalID == "" || v.OwnsNothing() {
		return nil
	}
	for o := range tx.VolumesByExternalID(nil, v.Spec.Plugin, v.Status.ExternalID) {
		if o.ID != v.ID && !o.OwnsNothing() {
			return o
		}
	}
	return nil
}

func modifyIndex(v *volume.Volume) uint64 {
	if v == nil {
		return 0
	}
	return v.ModifyIndex
}

// unchanged is the check of every write that was prepared on an earlier reading.
func unchanged(kind, subject string, now, seen uint64) error {
	if now == seen {
		return nil
	}
	return fault.New(fault.Conflict, "change "+kind, subject, "it was changed in between")
}

// VolumeForget removes a volume's record. It is the last step of a delete, or a deregistration.
type VolumeForget struct {
	ID   volume.ID
	Seen uint64
	// Force leaves claims and attachments alone that nobody can use any more; they go on being released.
	Force  bool
	Reason string // of force, kept with what is left
}

// Apply returns nil. It refuses while anything refers to the volume: the checks of the endpoint are made once more
// here.
func (c *VolumeForget) Apply(tx *state.Tx, st Stamp) (any, error) {
	v := tx.Volume(nil, c.ID)
	if v == nil {
		return nil, nil
	}
	if err := unchanged("volume", c.ID.String(), v.ModifyIndex, c.Seen); err != nil {
		return nil, err
	}
	if reached(tx, identities) {
		if err := c.guard(tx, v); err != nil {
			return nil, err
		}
	} else if !c.Force {
		for cl := range tx.ClaimsOf(nil, v.Staging()) {
			return nil, fault.New(fault.Busy, "forget volume", c.ID.String(),
				fmt.Sprintf("alloc %s still has a claim that is %s", cl.Alloc, cl.State))
		}
		for a := range tx.AttachmentsOf(nil, v.Staging()) {
			return nil, fault.New(fault.Busy, "forget volume", c.ID.String(),
				fmt.Sprintf("it is still attached to node %s", a.Node))
		}
	}
	tx.DeleteVolume(c.ID)
	if k := v.Staging(); k.ExternalID != "" && v.Status.Phase != volume.PhaseConflict && holders.Left(&tx.Snap, k) {
		tx.PutTombstone(&volume.Tombstone{
			StagingKey: k,
			UID:        v.UID,
			Volume:     v.ID,
			Provider:   v.Status.Provider,
			HomeNode:   v.Status.HomeNode,
			Secrets:    v.Spec.Secrets,
			Reason:     c.Reason,
			Time:       st.Time,
		})
	} else {
		tx.DropProvenEnds(v.UID) // no registration takes the identity over
	}
	dropSecret(tx, v.Spec.Secrets, v.Staging())
	return nil, nil
}

// maxTombstones bounds the volumes that were forgotten while something of them was left.
const maxTombstones = 10_000

// guard refuses to forget what is used. By force nothing is left alone but what nobody can use any more.
func (c *VolumeForget) guard(tx *state.Tx, v *volume.Volume) error {
	busy := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Busy, "forget volume", c.ID.String(), text), hint)
	}
	home := tx.Node(nil, v.Status.HomeNode)
	lost := c.Force && home != nil && home.ReplacedBy != "" // with its node: no operation on it ends any more
	switch phase := v.Status.Phase; {
	case lost:
	case phase == volume.PhaseConflict, phase == volume.PhaseFailed:
		return nil // such a record owns nothing
	case phase == volume.PhaseCreating, phase == volume.PhaseExpanding:
		return busy("an operation at the provider is under way: it is "+string(v.Status.Phase),
			"wait for its end: berth volume status "+c.ID.Typed())
	case phase == volume.PhaseDeleting: // asked before the provider was
		for cl := range tx.ClaimsOf(nil, v.Staging()) {
			return busy(volume.DescribeClaim(cl), "stop its job")
		}
		for a := range tx.AttachmentsOf(nil, v.Staging()) {
			return busy(volume.DescribeAttachment(a), "it is detached by itself")
		}
		return nil
	}
	if !c.Force {
		return holders.InUse(&tx.Snap, nil, "deregister", v)
	}
	if why := suspension.Destruction(&tx.Snap, nil, v.Staging()); why != nil {
		return why.Refuse("deregister", c.ID.String())
	}
	if !holders.Orphaned(&tx.Snap, v) {
		return holders.InUse(&tx.Snap, nil, "deregister", v)
	}
	count := 0
	for range tx.Tombstones(nil) {
		count++
	}
	if count >= maxTombstones {
		return busy(fmt.Sprintf("%d volumes that were forgotten by force are not released yet", count),
			"end what is left of them first: berth node orphans list")
	}
	return nil
}

// PluginLearn stores what a plugin's instances reported of it. It outlives them: unknown means wait, never absent.
type PluginLearn struct{ Record *plugin.Record }

// Apply returns nil.
func (c *PluginLearn) Apply(tx *state.Tx, _ Stamp) (any, error) {
	tx.PutPlugin(c.Record)
	return nil, nil
}

// PluginForget removes the record of a plugin that has neither instances nor volumes.
type PluginForget struct{ ID ids.Plugin }

// Apply returns whether it was there. It refuses while a volume refers to the plugin.
func (c *PluginForget) Apply(tx *state.Tx, _ Stamp) (any, error) {
	for v := range tx.VolumesByPlugin(nil, c.ID) {
		return nil, fault.New(fault.Busy, "forget plugin", string(c.ID), fmt.Sprintf("volume %s refers to it", v.ID))
	}
	return tx.DeletePlugin(c.ID), nil
}

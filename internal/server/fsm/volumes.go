package fsm

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

func init() {
	register[VolumePut]("volume-put", 1, "server/volumes")
	register[VolumeForget]("volume-forget", 1, "server/volumes")
	register[SnapshotPut]("snapshot-put", 1, "server/volumes")
	register[SnapshotForget]("snapshot-forget", 1, "server/volumes")
	register[AttachmentPut]("attachment-put", 1, "server/claims")
	register[AttachmentForget]("attachment-forget", 1, "server/claims")
	register[PluginLearn]("plugin-learn", 1, "server/claims")
	register[PluginForget]("plugin-forget", 1, "server/claims")
}

// VolumePut stores a volume if it is still as the proposer saw it. Seen is the modify index that it read; 0: there was
// no such volume.
type VolumePut struct {
	Volume *volume.Volume
	Seen   uint64
}

// Apply returns the stored *volume.Volume. An external id that another registration has already ends a creation in
// phase conflict, and refuses a registration.
func (c *VolumePut) Apply(tx *state.Tx, st Stamp) (any, error) {
	v := c.Volume
	old := tx.Volume(nil, v.ID)
	if err := unchanged("volume", v.ID.String(), modifyIndex(old), c.Seen); err != nil {
		return nil, err
	}
	if old == nil && tx.Namespace(nil, v.Namespace) == nil {
		return nil, fault.New(fault.NotFound, "create volume", v.ID.String(),
			fmt.Sprintf("namespace %q does not exist", v.Namespace))
	}
	if old == nil {
		if err := leftOver(tx, v); err != nil {
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
		v.Status.Phase = volume.PhaseConflict
		v.Status.LastError = fmt.Sprintf(
			"the provider answered the external id %q, which is registered as volume %s already", v.Status.ExternalID,
			twin.ID)
	}
	if old != nil {
		// The current use is the claims' to write; it may have moved on in between only with the index.
		v.Status.AccessMode = old.Status.AccessMode
		v.Status.AttachmentMode = old.Status.AttachmentMode
		v.Status.MountOptions = old.Status.MountOptions
		v.CreateTime = old.CreateTime
	}
	tx.PutVolume(v)
	return v, nil
}

// leftOver refuses the registration of a provider's volume that a forgotten registration has still attached.
func leftOver(tx *state.Tx, v *volume.Volume) error {
	if v.Status.ExternalID == "" {
		return nil
	}
	for a := range tx.Attachments(nil) {
		if a.Plugin == v.Spec.Plugin && a.ExternalID == v.Status.ExternalID && a.Volume != v.ID {
			return fault.WithHint(fault.New(fault.Busy, "register volume", v.ID.String(),
				fmt.Sprintf("the external id %q of plugin %q is still attached to node %s as the forgotten volume %s",
					a.ExternalID, a.Plugin, ids.Short(a.Node), a.Volume)),
				"wait until it is detached")
		}
	}
	return nil
}

// twinOf returns another registration of the same provider's volume, or nil. Records in conflict don't count: they own
// nothing.
func twinOf(tx *state.Tx, v *volume.Volume) *volume.Volume {
	if v.Status.ExternalID == "" || v.Status.Phase == volume.PhaseConflict {
		return nil
	}
	for o := range tx.VolumesByExternalID(nil, v.Spec.Plugin, v.Status.ExternalID) {
		if o.ID != v.ID && o.Status.Phase != volume.PhaseConflict {
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
	Force bool
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
	if !c.Force {
		for cl := range tx.ClaimsByVolume(nil, c.ID) {
			return nil, fault.New(fault.Busy, "forget volume", c.ID.String(),
				fmt.Sprintf("alloc %s still has a claim that is %s", cl.Alloc, cl.State))
		}
		for a := range tx.AttachmentsByVolume(nil, c.ID) {
			return nil, fault.New(fault.Busy, "forget volume", c.ID.String(),
				fmt.Sprintf("it is still attached to node %s", a.Node))
		}
	}
	tx.DeleteVolume(c.ID)
	if v.Spec.Secrets != "" {
		tx.DeleteSecret(v.Spec.Secrets)
	}
	return nil, nil
}

// SnapshotPut stores a snapshot record; Seen as in VolumePut.
type SnapshotPut struct {
	Snapshot *volume.Snapshot
	Seen     uint64
}

// Apply returns the stored *volume.Snapshot.
func (c *SnapshotPut) Apply(tx *state.Tx, _ Stamp) (any, error) {
	var now uint64
	if old := tx.VolumeSnapshot(nil, c.Snapshot.ID); old != nil {
		now = old.ModifyIndex
	}
	if err := unchanged("snapshot", c.Snapshot.ID, now, c.Seen); err != nil {
		return nil, err
	}
	tx.PutVolumeSnapshot(c.Snapshot)
	return c.Snapshot, nil
}

// SnapshotForget removes a snapshot's record.
type SnapshotForget struct{ ID string }

// Apply returns nil.
func (c *SnapshotForget) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if s := tx.VolumeSnapshot(nil, c.ID); s != nil && s.Secrets == "snapshot/"+c.ID { // else they are the volume's
		tx.DeleteSecret(s.Secrets)
	}
	tx.DeleteVolumeSnapshot(c.ID)
	return nil, nil
}

// AttachmentPut stores an attachment: the intent before a call, or what it came to. Seen as in VolumePut.
type AttachmentPut struct {
	Attachment *volume.Attachment
	Seen       uint64
}

// Apply returns the stored *volume.Attachment.
func (c *AttachmentPut) Apply(tx *state.Tx, st Stamp) (any, error) {
	a := c.Attachment
	old := tx.Attachment(nil, a.Key())
	var now uint64
	if old != nil {
		now = old.ModifyIndex
	}
	if err := unchanged("attachment", a.Volume.String(), now, c.Seen); err != nil {
		return nil, err
	}
	if old == nil || old.Presence != a.Presence || old.Detaching != a.Detaching {
		a.Since = st.Time
	}
	a.Generation = st.Index // a new direction is a new call; a repetition keeps its number
	if old != nil && old.Detaching == a.Detaching {
		a.Generation = old.Generation
	}
	tx.PutAttachment(a)
	return a, nil
}

// AttachmentForget removes an attachment whose detach is confirmed.
type AttachmentForget struct {
	Key  volume.AttachmentKey
	Seen uint64
}

// Releases lets volumes be released when the disk is nearly full.
func (c *AttachmentForget) Releases() bool { return true }

// Apply returns nil.
func (c *AttachmentForget) Apply(tx *state.Tx, st Stamp) (any, error) {
	a := tx.Attachment(nil, c.Key)
	if a == nil {
		return nil, nil
	}
	if err := unchanged("attachment", c.Key.Volume.String(), a.ModifyIndex, c.Seen); err != nil {
		return nil, err
	}
	tx.DeleteAttachment(c.Key)
	clearMode(tx, c.Key.Volume)
	promote(tx, st, c.Key.Volume)
	return nil, nil
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

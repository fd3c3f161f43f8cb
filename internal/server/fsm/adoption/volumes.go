package adoption

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// claim takes the claim that the use of a volume by an orphan stands for. It has a new epoch, because the old one is of
// a state that may be another; until the node has said that it knows it, the old one names the claim too.
func claim(tx *state.Tx, st fsm.Stamp, a *alloc.Alloc, r *job.VolumeRequest, id volume.ID, o *Orphan) error {
	held := heldAs(o.Volumes, r.Name)
	if held == nil {
		return refuse(a.ID, fmt.Sprintf("its node does not say how it holds volume %q", id.ID), endIt(a.ID))
	}
	v, err := recordOf(tx, a, id, held)
	if err != nil {
		return err
	}
	m := tx.Meta(nil)
	if m == nil {
		return fault.New(fault.Internal, "adopt", fmt.Sprintf("allocation %q", a.ID),
			"the cluster has no incarnation yet")
	}
	c := &volume.Claim{
		Volume:         id,
		Alloc:          a.ID,
		Node:           a.Node,
		Job:            a.Job,
		Alias:          r.Name,
		AccessMode:     volume.AccessMode(r.AccessMode),
		AttachmentMode: volume.AttachmentMode(r.AttachmentMode),
		MountOptions:   held.MountOptions,
		ReadOnly:       r.ReadOnly,
		State:          volume.Held,
		Epoch:          volume.Epoch{Incarnation: m.Incarnation, Index: st.Index},
		Since:          st.Time,
	}
	if held.Epoch != (volume.Epoch{}) {
		c.Before = &held.Epoch
	}
	c.Identify(v)
	if err := usable(tx, v, c, held); err != nil {
		return err
	}
	if err := attach(tx, st, v, c, held); err != nil {
		return err
	}
	tx.PutClaim(c)
	if n := v.UsedAs(c); n != v {
		tx.PutVolume(n)
	}
	return nil
}

func heldAs(all []wire.HeldVolume, alias string) *wire.HeldVolume {
	for i := range all {
		if all[i].Alias == alias {
			return &all[i]
		}
	}
	return nil
}

// recordOf finds the record of the volume that a node holds. The job finds it by name, so the name must mean it.
func recordOf(tx *state.Tx, a *alloc.Alloc, id volume.ID, held *wire.HeldVolume) (*volume.Volume, error) {
	what := fmt.Sprintf("external id %q of plugin %q", held.ExternalID, held.Plugin)
	switch v := tx.Volume(nil, id); {
	case v != nil && v.Staging() == held.StagingKey:
		return v, nil
	case v != nil:
		return nil, refuse(a.ID, fmt.Sprintf("its volume is the %s, and volume %q is another now", what, id.ID),
			endIt(a.ID))
	}
	if v := tx.VolumeOf(nil, held.StagingKey); v != nil {
		return nil, refuse(a.ID, fmt.Sprintf("its volume is registered as %q, the job asks for %q", v.ID, id.ID),
			fmt.Sprintf("deregister it and register it as %q: berth volume register FILE", id.ID))
	}
	return nil, refuse(a.ID, fmt.Sprintf("its volume %q (%s) has no record here", id.ID, what),
		fmt.Sprintf("register it first, with the context that the node has: berth volume register FILE (berth node "+
			"orphans adopt -volumes %s prints the file)", ids.Short(a.ID)))
}

// usable holds a claim against the volume and against whoever else uses it.
func usable(tx *state.Tx, v *volume.Volume, c *volume.Claim, held *wire.HeldVolume) error {
	switch {
	case v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding:
		return refuse(c.Alloc, fmt.Sprintf("its volume %q is %s", v.ID.ID, v.Status.Phase), endIt(c.Alloc))
	case tx.Tombstone(nil, v.Staging()) != nil:
		return refuse(c.Alloc, fmt.Sprintf("its volume %q was forgotten by force", v.ID.ID), endIt(c.Alloc))
	case held.AccessMode != c.AccessMode || held.AttachmentMode != c.AttachmentMode:
		return refuse(c.Alloc, fmt.Sprintf("its node holds volume %q as %s with %s, its job asks for %s with %s",
			v.ID.ID, held.AccessMode, held.AttachmentMode, c.AccessMode, c.AttachmentMode), endIt(c.Alloc))
	case tx.ClaimProof(c.Node, volume.PublicationKey{StagingKey: v.Staging(), Alloc: c.Alloc}, held.Epoch) != nil:
		return refuse(c.Alloc, fmt.Sprintf("its claim of volume %q was ended by proof", v.ID.ID), endIt(c.Alloc))
	}
	if why := suspension.Calls(&tx.Snap, nil, v.Staging()); why != nil {
		return refuse(c.Alloc, fmt.Sprintf("its volume %q is suspended: %s", v.ID.ID, why),
			"see: berth operator recovery status")
	}
	if ok, why := volume.Compatible(v, c); !ok {
		return refuse(c.Alloc, fmt.Sprintf("its volume %q %s", v.ID.ID, why), endIt(c.Alloc))
	}
	if err := holders.Against(&tx.Snap, c); err != nil {
		return fault.Note(err, "adopt", fmt.Sprintf("allocation %q", c.Alloc))
	}
	return nil
}

// attach records the attachment under which the node staged the volume, so that it is found and undone like any other.
func attach(tx *state.Tx, st fsm.Stamp, v *volume.Volume, c *volume.Claim, held *wire.HeldVolume) error {
	rec := tx.Plugin(nil, v.Spec.Plugin)
	if held.Generation == 0 && (rec == nil || !rec.NeedsAttach) {
		return nil
	}
	old := tx.Attachment(nil, volume.AttachmentKey{StagingKey: v.Staging(), Node: c.Node})
	if old != nil && old.Presence.Exists() {
		if old.Presence == volume.Present && !old.Detaching && old.Generation == held.Generation {
			return nil
		}
		if old.Detaching || old.Executor != "" {
			return refuse(c.Alloc, fmt.Sprintf("its volume %q is %s", v.ID.ID, volume.DescribeAttachment(old)),
				"wait until that has ended")
		}
	}
	at := storageNode(&tx.Snap, c.Node, v.Spec.Plugin)
	if at == "" {
		return fault.WithHint(fault.New(fault.NotReady, "adopt", fmt.Sprintf("allocation %q", c.Alloc),
			fmt.Sprintf("plugin %q has not said yet how the provider calls its node", v.Spec.Plugin)),
			"adopt the orphan that runs the plugin first, and wait until it is healthy")
	}
	now := &volume.Attachment{
		Volume:         v.ID,
		UID:            v.UID,
		Node:           c.Node,
		Plugin:         v.Spec.Plugin,
		ExternalID:     v.Status.ExternalID,
		StorageNode:    at,
		Presence:       volume.Present,
		PublishContext: held.PublishContext,
		AccessMode:     c.AccessMode,
		AttachmentMode: c.AttachmentMode,
		MountOptions:   c.MountOptions,
		ReadOnly:       c.AccessMode.ReaderOnly() && rec != nil && rec.Controller.AttachReadOnly,
		Secrets:        v.Spec.Secrets,
		VolumeContext:  v.Status.Context,
		Generation:     held.Generation,
		Since:          st.Time,
	}
	if other := attaching.Same(&tx.Snap, now); other != nil && tx.Understands(attaching.Schema) {
		return refuse(c.Alloc, fmt.Sprintf("its volume %q is attached to %q for node %s, which its own node says to be",
			v.ID.ID, at, ids.Short(other.Node)), "look at both nodes: berth node status")
	}
	tx.PutAttachment(now)
	return nil
}

func storageNode(s *state.Snap, on ids.Node, id ids.Plugin) string {
	for _, i := range instances.On(s, nil, s.Node(nil, on)) {
		if i.Plugin == id && i.Role == plugin.RoleNode && i.StorageNode != "" {
			return i.StorageNode
		}
	}
	return ""
}

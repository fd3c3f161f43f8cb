package fsm

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// takeClaim files a claim that a plan makes. It is the last gate: what the planner checked on a state that has moved on
// is checked here once more, so that two writers of one volume can't be committed.
func takeClaim(tx *state.Tx, st Stamp, c *volume.Claim) error {
	v := tx.Volume(nil, c.Volume)
	if err := claimable(v, c); err != nil {
		return err
	}
	if err := roomFor(tx, c); err != nil {
		return err
	}
	m := tx.Meta(nil)
	if m == nil {
		return fault.New(fault.Internal, "claim volume", c.Volume.String(), "the cluster has no incarnation yet")
	}
	c.Epoch = volume.Epoch{Incarnation: m.Incarnation, Index: st.Index}
	c.Since, c.FenceProof = st.Time, volume.ProofNone
	tx.PutClaim(c)
	if v.Status.AccessMode == "" {
		n := *v
		n.Status.AccessMode, n.Status.AttachmentMode, n.Status.MountOptions = c.AccessMode, c.AttachmentMode, c.MountOptions
		tx.PutVolume(&n)
	}
	return nil
}

func claimable(v *volume.Volume, c *volume.Claim) error {
	refuse := func(text string) error {
		return fault.New(fault.Conflict, "claim volume", c.Volume.String(), text)
	}
	switch {
	case v == nil:
		return refuse("it does not exist")
	case v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding:
		return refuse(fmt.Sprintf("it is %s", v.Status.Phase))
	case v.Status.AccessMode != "" && v.Status.AccessMode != c.AccessMode:
		return refuse(fmt.Sprintf("it is in use as %s, %s was asked for", v.Status.AccessMode, c.AccessMode))
	case v.Status.AttachmentMode != "" && v.Status.AttachmentMode != c.AttachmentMode:
		return refuse(fmt.Sprintf("it is in use as %s, %s was asked for", v.Status.AttachmentMode, c.AttachmentMode))
	case c.State != volume.Held && c.State != volume.Queued:
		return refuse(fmt.Sprintf("a claim can't begin as %q", c.State))
	}
	return nil
}

// roomFor holds a new claim against those that are there.
func roomFor(tx *state.Tx, c *volume.Claim) error {
	for o := range tx.ClaimsByVolume(nil, c.Volume) {
		if o.Alloc == c.Alloc {
			if o.Node != c.Node {
				return fault.New(fault.Conflict, "claim volume", c.Volume.String(), fmt.Sprintf("alloc %s has a claim on another node", ids.Short(c.Alloc)))
			}
			continue
		}
		if o.State == volume.Queued && c.State == volume.Queued || o.State != volume.Queued && c.State == volume.Held && excludes(o, c) {
			return fault.New(fault.Busy, "claim volume", c.Volume.String(), fmt.Sprintf("alloc %s on node %s has a claim that is %s", ids.Short(o.Alloc), ids.Short(o.Node), o.State))
		}
	}
	return nil
}

// excludes tells whether two claims can't be held at the same time.
func excludes(a, b *volume.Claim) bool {
	switch b.AccessMode {
	case volume.SingleNodeWriter:
		return true
	case volume.SingleNodeReader:
		return a.Node != b.Node
	case volume.MultiNodeSingleWriter:
		return !a.ReadOnly && !b.ReadOnly
	}
	return false
}

// dropQueued ends the queued claims of an alloc: its node started nothing for them.
func dropQueued(tx *state.Tx, id ids.Alloc) {
	for _, c := range collect(tx.ClaimsByAlloc(nil, id)) {
		if c.State == volume.Queued {
			endClaim(tx, c)
		}
	}
}

// releaseClaims begins the release of all that an alloc holds: its processes are gone, or it is lost.
func releaseClaims(tx *state.Tx, st Stamp, id ids.Alloc) {
	dropQueued(tx, id)
	for _, c := range collect(tx.ClaimsByAlloc(nil, id)) {
		if c.State == volume.Held {
			n := *c
			n.State, n.Since = volume.Releasing, st.Time
			tx.PutClaim(&n)
			settle(tx, st, n.Volume)
		}
	}
}

// endClaim removes a claim; the last one of a volume without attachments takes the volume's current mode with it.
func endClaim(tx *state.Tx, c *volume.Claim) {
	tx.DeleteClaim(c.Key())
	clearMode(tx, c.Volume)
}

// clearMode forgets a volume's current mode when neither claim nor attachment is left.
func clearMode(tx *state.Tx, id volume.ID) {
	v := tx.Volume(nil, id)
	if v == nil || v.Status.AccessMode == "" {
		return
	}
	for range tx.ClaimsByVolume(nil, id) {
		return
	}
	for range tx.AttachmentsByVolume(nil, id) {
		return
	}
	n := *v
	n.Status.AccessMode, n.Status.AttachmentMode, n.Status.MountOptions = "", "", nil
	tx.PutVolume(&n)
}

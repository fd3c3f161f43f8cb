package fsm

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// takeClaim files a claim that a plan makes. It is the last check: what the planner checked on a state that has moved
// on is checked here once more, so that two writers of one volume can't be committed.
func takeClaim(tx *state.Tx, st Stamp, c *volume.Claim) error {
	v := tx.Volume(nil, c.Volume)
	if err := claimable(v, c); err != nil {
		return err
	}
	c.Identify(v)
	if why := suspension.Claims(&tx.Snap, nil, v); why != nil {
		return fault.New(fault.Conflict, "claim volume", c.Volume.String(), why.String())
	}
	if err := admissible(tx, c); err != nil {
		return err
	}
	m := tx.Meta(nil)
	if m == nil {
		return fault.New(fault.Internal, "claim volume", c.Volume.String(), "the cluster has no incarnation yet")
	}
	c.Epoch = volume.Epoch{Incarnation: m.Incarnation, Index: st.Index}
	c.Since, c.FenceProof = st.Time, volume.ProofNone
	tx.PutClaim(c)
	begin(tx, v, c)
	promote(tx, st, c.Staging()) // what it is to wait for may have ended since the planner looked
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
	case c.State != volume.Held && c.State != volume.Queued:
		return refuse(fmt.Sprintf("a claim can't begin as %q", c.State))
	}
	if ok, why := volume.Compatible(v, c); !ok {
		return refuse("it " + why)
	}
	return nil
}

// begin notes the use that a volume's first claim makes of it.
func begin(tx *state.Tx, v *volume.Volume, c *volume.Claim) {
	if n := v.UsedAs(c); n != v {
		tx.PutVolume(n)
	}
}

// admissible holds a new claim, or one that is to leave the queue, against those that are there.
func admissible(tx *state.Tx, c *volume.Claim) error {
	var others []*volume.Claim
	for o := range tx.ClaimsOf(nil, c.Staging()) {
		if o.Alloc == c.Alloc && o.Node != c.Node {
			return fault.New(fault.Conflict, "claim volume", c.Volume.String(),
				fmt.Sprintf("alloc %s has a claim on another node", ids.Short(o.Alloc)))
		}
		others = append(others, o)
	}
	// Whose alloc is ending, the planner has judged. Here it is enough that a claim in the queue may wait for it.
	as, by := volume.Admit(c, others, func(ids.Alloc) bool { return true })
	if as == "" || as == volume.Queued && c.State == volume.Held {
		return fault.New(fault.Busy, "claim volume", c.Volume.String(),
			fmt.Sprintf("alloc %s on node %s has a claim that is %s", ids.Short(by.Alloc), ids.Short(by.Node),
				by.State))
	}
	return nil
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
			Settle(tx, st, n.Staging())
		}
	}
}

// endClaim removes a claim; the last one of a volume without attachments takes the volume's current mode with it.
func endClaim(tx *state.Tx, c *volume.Claim) {
	tx.DeleteClaim(c.Key())
	clearMode(tx, c.Staging())
}

// clearMode forgets a volume's current mode when neither claim nor attachment is left.
func clearMode(tx *state.Tx, k volume.StagingKey) {
	v := tx.VolumeOf(nil, k)
	if v == nil || v.Status.AccessMode == "" {
		return
	}
	for range tx.ClaimsOf(nil, k) {
		return
	}
	for range tx.AttachmentsOf(nil, k) {
		return
	}
	tx.PutVolume(v.Unused())
}

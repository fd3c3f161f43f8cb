package volumes

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// inUse says who uses a volume, before anything is touched: the claim, the attachment or the node's mount that stands in
// the way, with the job and since when.
func inUse(s *state.Snap, op string, id volume.ID) error {
	busy := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Busy, op, `volume "`+string(id.ID)+`"`, "volume in use: "+string(id.ID)+": "+text), hint)
	}
	for c := range s.ClaimsByVolume(nil, id) {
		hint := "stop the job first: berth job stop " + string(c.Job)
		if !holds(s, c) {
			hint = "its end is under way; wait for it with: berth volume " + op + " -wait 30s " + string(id.ID)
			if op != "delete" {
				hint = "its end is under way; follow it with: berth volume status " + string(id.ID)
			}
		}
		return busy(volume.DescribeClaim(c), hint)
	}
	for i := range s.InventoryByVolume(nil, id) {
		if !i.Entry.Quiet() {
			return busy("node "+ids.Short(i.Node)+" has not let go of it yet: "+i.Entry.Step, "follow it with: berth volume status "+string(id.ID))
		}
	}
	for a := range s.AttachmentsByVolume(nil, id) {
		return busy(volume.DescribeAttachment(a), "it is detached by itself; follow it with: berth volume status "+string(id.ID))
	}
	for v := range s.Volumes(nil, id.Namespace, "") {
		if v.Spec.CloneID == string(id.ID) && v.Status.Phase == volume.PhaseCreating {
			return busy(fmt.Sprintf("volume %q is being cloned from it", v.ID.ID), "wait until that has ended")
		}
	}
	for sn := range s.VolumeSnapshotsOf(nil, id) {
		if sn.Phase == volume.PhaseCreating {
			return busy(fmt.Sprintf("snapshot %q is being cut from it", sn.Name), "wait until that has ended")
		}
	}
	return nil
}

func (k *Keeper) delete(ctx context.Context, r *wire.VolumeDeleteRequest) (*wire.Written, error) {
	s := k.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("delete", r.Volume)
	}
	if err := k.awaitFree(ctx, r.Volume, r.Wait); err != nil {
		return nil, err
	}
	s = k.cfg.Store.Snapshot()
	if v = s.Volume(nil, r.Volume); v == nil {
		return &wire.Written{Index: s.Index()}, nil
	}
	if v.Status.Phase == volume.PhaseConflict || v.Status.Phase == volume.PhaseFailed {
		_, index, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex})
		return &wire.Written{Index: index}, err
	}
	if rec := s.Plugin(nil, v.Spec.Plugin); rec != nil && rec.Negotiated && !rec.Controller.CreateDelete {
		return nil, fault.WithHint(fault.New(fault.Conflict, "delete", `volume "`+r.Volume.String()+`"`, "plugin does not support deleting volumes"), "forget it with: berth volume deregister "+string(r.Volume.ID))
	}
	if v.Status.Phase != volume.PhaseDeleting {
		n := *v
		if len(r.Secrets.Values) > 0 {
			if err := k.sealSecrets(ctx, &n, r.Secrets); err != nil {
				return nil, err
			}
		}
		n.Status.Phase, n.Status.Since = volume.PhaseDeleting, time.Now().UTC()
		n.Status.Tries, n.Status.NextTry, n.Status.LastError = 0, time.Time{}, ""
		if _, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumePut{Volume: &n, Seen: v.ModifyIndex}); err != nil {
			return nil, err
		}
	}
	return k.awaitGone(ctx, r.Volume, r.Wait)
}

// awaitFree waits, as long as the caller said, for a release that is under way; what will not pass by itself is refused
// at once.
func (k *Keeper) awaitFree(ctx context.Context, id volume.ID, wait time.Duration) error {
	wctx, cancel := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer cancel()
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for range s.ClaimsByVolume(w, id) {
			continue
		}
		for range s.AttachmentsByVolume(w, id) {
			continue
		}
		for range s.InventoryByVolume(w, id) {
			continue
		}
		err := inUse(s, "delete", id)
		if err == nil || wait <= 0 || heldBySomebody(s, id) {
			return err
		}
		if w.Wait(wctx) != nil {
			return err
		}
	}
}

// heldBySomebody reports whether a claim of the volume will not end by itself.
func heldBySomebody(s *state.Snap, id volume.ID) bool {
	for c := range s.ClaimsByVolume(nil, id) {
		if holds(s, c) {
			return true
		}
	}
	return false
}

// holds reports a claim that will not end by itself: nobody asked its alloc to stop, and its job goes on. A job that was
// told to stop a moment ago is on its way, even before the scheduler has looked at it.
func holds(s *state.Snap, c *volume.Claim) bool {
	if c.State == volume.Releasing {
		return false
	}
	a := s.Alloc(nil, c.Alloc)
	return a == nil || !a.Terminal() && !s.Job(nil, a.Namespace, a.Job).Stopped()
}

// awaitGone follows a deletion to its end.
func (k *Keeper) awaitGone(ctx context.Context, id volume.ID, wait time.Duration) (*wire.Written, error) {
	if wait <= 0 {
		wait = defaultWait
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		v := s.Volume(w, id)
		if v == nil {
			return &wire.Written{Index: max(s.Index(), 1)}, nil
		}
		if v.Status.LastError != "" && v.Status.Tries > 0 {
			return nil, fault.WithHint(fault.New(fault.Conflict, "delete", `volume "`+id.String()+`"`, v.Status.LastError),
				"it stays recorded as deleting and is tried again; follow it with: berth volume status "+string(id.ID))
		}
		if w.Wait(wctx) != nil {
			return nil, fault.WithHint(fault.New(fault.Timeout, "delete", `volume "`+id.String()+`"`, "the provider has not finished after "+wait.String()),
				"the work goes on; follow it with: berth volume status "+string(id.ID))
		}
	}
}

func (k *Keeper) deregister(ctx context.Context, r *wire.VolumeDeleteRequest) (*wire.Written, error) {
	s := k.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("deregister", r.Volume)
	}
	if err := inUse(s, "deregister", r.Volume); err != nil && !(r.Force && orphaned(s, r.Volume)) {
		return nil, err
	}
	if v.Status.Phase == volume.PhaseCreating || v.Status.Phase == volume.PhaseExpanding {
		return nil, fault.New(fault.Busy, "deregister", `volume "`+r.Volume.String()+`"`, "an operation at the provider is under way: it is "+string(v.Status.Phase))
	}
	_, index, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex, Force: r.Force})
	if err == nil && r.Force {
		k.cfg.Log.Warn("volume forgotten by force", "volume", v.ID.String(), "reason", r.Reason)
	}
	return &wire.Written{Index: index}, err
}

// orphaned reports that every claim of a volume belongs to an alloc that is gone.
func orphaned(s *state.Snap, id volume.ID) bool {
	for c := range s.ClaimsByVolume(nil, id) {
		if a := s.Alloc(nil, c.Alloc); a != nil && !a.Terminal() {
			return false
		}
	}
	return true
}

// detach asks that a volume leave a node. The claims of that node must be on their way out already: a running allocation
// is never robbed of its volume.
func (k *Keeper) detach(ctx context.Context, r *wire.VolumeDetachRequest) (*wire.Written, error) {
	s := k.cfg.Store.Snapshot()
	if s.Volume(nil, r.Volume) == nil {
		return nil, notFound("detach", r.Volume)
	}
	if r.Attest != "" {
		return k.attest(ctx, s, r)
	}
	found := false
	for c := range s.ClaimsByVolume(nil, r.Volume) {
		if c.Node != r.Node {
			continue
		}
		found = true
		if a := s.Alloc(nil, c.Alloc); c.State != volume.Releasing && a != nil && !a.Terminal() {
			return nil, fault.WithHint(fault.New(fault.Busy, "detach", `volume "`+string(r.Volume.ID)+`"`, volume.DescribeClaim(c)),
				"stop the allocation first: berth alloc stop "+ids.Short(c.Alloc))
		}
	}
	if s.Attachment(nil, volume.AttachmentKey{Volume: r.Volume, Node: r.Node}) != nil {
		found = true
	}
	if !found {
		return nil, fault.New(fault.NotFound, "detach", `volume "`+string(r.Volume.ID)+`"`, "it is neither claimed on nor attached to node "+string(r.Node))
	}
	return &wire.Written{Index: s.Index(), Warnings: []string{"the volume is being released already; nothing more was needed"}}, nil
}

// attest ends the claims of a dead node because a person vouches for its death: killed processes or silence alone are no
// proof. A node that is up is never declared dead.
func (k *Keeper) attest(ctx context.Context, s *state.Snap, r *wire.VolumeDetachRequest) (*wire.Written, error) {
	subject := `volume "` + string(r.Volume.ID) + `"`
	if n := s.Node(nil, r.Node); n != nil && n.Status != node.StatusDown {
		return nil, fault.WithHint(fault.New(fault.Conflict, "detach", subject, "node "+ids.Short(r.Node)+" is "+n.Status+", not down"),
			"stop the allocations that use the volume; a node that answers lets go by itself")
	}
	out := &wire.Written{Index: s.Index()}
	for c := range s.ClaimsByVolume(nil, r.Volume) {
		if c.Node != r.Node {
			continue
		}
		_, index, err := k.cfg.Proposer.Propose(ctx, &fsm.ClaimProof{Claim: c.Key(), Epoch: c.Epoch, Proof: volume.ProofAttested, Reason: r.Attest})
		if err != nil {
			return nil, err
		}
		k.cfg.Log.Warn("a claim was ended because a person attested that its node is dead", "volume", r.Volume.String(), "node", r.Node, "alloc", c.Alloc, "reason", r.Attest)
		out.Index = index
		out.Warnings = append(out.Warnings, "ended the claim of allocation "+ids.Short(c.Alloc)+" on the word that node "+ids.Short(r.Node)+" is dead")
	}
	if len(out.Warnings) == 0 {
		return nil, fault.New(fault.NotFound, "detach", subject, "no allocation on node "+string(r.Node)+" claims it")
	}
	return out, nil
}

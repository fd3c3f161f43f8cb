package storage

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// detach asks that a volume leave a node. The claims of that node must be on their way out already: a running
// allocation is never robbed of its volume.
func (e *Endpoints) volumeDetach(ctx context.Context, r *wire.VolumeDetachRequest) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("detach", r.Volume)
	}
	if r.Attest != "" {
		return e.attest(ctx, s, v, r)
	}
	found := false
	for c := range s.ClaimsOf(nil, v.Staging()) {
		if c.Node != r.Node {
			continue
		}
		found = true
		if a := s.Alloc(nil, c.Alloc); c.State != volume.Releasing && a != nil && !a.Terminal() {
			return nil, fault.WithHint(
				fault.New(fault.Busy, "detach", `volume "`+string(r.Volume.ID)+`"`, volume.DescribeClaim(c)),
				"stop the allocation first: berth alloc stop "+ids.Short(c.Alloc))
		}
	}
	if s.Attachment(nil, volume.AttachmentKey{StagingKey: v.Staging(), Node: r.Node}) != nil {
		found = true
	}
	if !found {
		return nil, fault.New(fault.NotFound, "detach", `volume "`+string(r.Volume.ID)+`"`,
			"it is neither claimed on nor attached to node "+string(r.Node))
	}
	if n := s.Node(nil, r.Node); n != nil && n.Status == node.StatusDown {
		return nil, fault.WithHint(fault.New(fault.Busy, "detach", `volume "`+string(r.Volume.ID)+`"`,
			"node "+ids.Short(r.Node)+" is down, and has not said that it released the volume"),
			holders.DeadNode(v.ID, r.Node))
	}
	return &wire.Written{
		Index:    s.Index(),
		Warnings: []string{"the volume is being released already; nothing more was needed"},
	}, nil
}

// attest ends the claims of a dead node because a person vouches that it is dead: killed processes or silence alone are
// no proof. A node that is up is never declared dead.
func (e *Endpoints) attest(
	ctx context.Context, s *state.Snap, v *volume.Volume, r *wire.VolumeDetachRequest,
) (*wire.Written, error) {
	subject := `volume "` + string(r.Volume.ID) + `"`
	if n := s.Node(nil, r.Node); n != nil && n.Status != node.StatusDown {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "detach", subject, "node "+ids.Short(r.Node)+" is "+n.Status+", not down"),
			"stop the allocations that use the volume; a node that answers releases them by itself")
	}
	out := &wire.Written{Index: s.Index()}
	if n := s.Recovery(nil).Node(r.Node); n != nil && !s.Recovery(nil).Over(v.Staging()) {
		rec, index, err := fsm.Propose[*model.Record](ctx, e.cfg.Proposer,
			&recovery.Attest{StagingKey: v.Staging(), Node: r.Node, Reason: r.Attest, By: r.By})
		if err != nil {
			return nil, err
		}
		out.Index = index
		out.Warnings = append(out.Warnings, "noted: node "+ids.Short(r.Node)+" is dead and holds the volume no longer")
		if !rec.Over(v.Staging()) { // its claims end by a word only when the others have been heard
			out.Warnings = append(out.Warnings, "its claims stay: "+suspension.Missing(rec, v.Staging())+
				"; say it again then (berth operator recovery status)")
			return out, nil
		}
	}
	for c := range s.ClaimsOf(nil, v.Staging()) {
		if c.Node != r.Node {
			continue
		}
		_, index, err := e.cfg.Proposer.Propose(ctx,
			&fsm.ClaimProof{
				Claim:  c.Key(),
				Epoch:  c.Epoch,
				Proof:  volume.ProofAttested,
				Reason: r.Attest,
				By:     r.By,
			})
		if err != nil {
			return nil, err
		}
		e.cfg.Log.Warn("a claim was ended because a person attested that its node is dead", "volume", r.Volume.String(),
			"node", r.Node, "alloc", c.Alloc, "reason", r.Attest, "by", r.By)
		out.Index = index
		out.Warnings = append(out.Warnings,
			"ended the claim of allocation "+ids.Short(c.Alloc)+" on the word that node "+ids.Short(r.Node)+" is dead")
	}
	if len(out.Warnings) == 0 {
		return nil, fault.New(fault.NotFound, "detach", subject, "no allocation on node "+string(r.Node)+" claims it")
	}
	return out, nil
}

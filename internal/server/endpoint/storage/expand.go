package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// volumeExpand makes a volume larger. While it is being expanded another size takes the place of the one under way, and
// the size that it has cancels it.
func (e *Endpoints) volumeExpand(ctx context.Context, r *wire.VolumeExpandRequest) (*wire.VolumeWriteReply, error) {
	s := e.cfg.Store.Snapshot()
	old := s.Volume(nil, r.Volume)
	if old == nil {
		return nil, notFound("expand", r.Volume)
	}
	foreign := s.Plugin(nil, old.Spec.Plugin).Foreign(old.Status.Provider)
	if err := validate.May(old, validate.Expand, foreign); err != nil {
		return nil, err
	}
	cur, subject := old.Status.Capacity, `volume "`+r.Volume.String()+`"`
	switch {
	case r.Min > 0 && r.Min < cur:
		return nil, fault.New(fault.Conflict, "expand", subject,
			fmt.Sprintf("%d bytes are less than its %d bytes: volumes cannot shrink", r.Min, cur))
	case r.Min > 0 && r.Min == cur && old.Status.Phase != volume.PhaseExpanding:
		return &wire.VolumeWriteReply{Volume: old, Outcome: "unchanged", Index: s.Index()}, nil
	}
	n := *old
	if err := validate.Resize(&n, old, r.Min, r.Max, s.Plugin(nil, old.Spec.Plugin)); err != nil {
		return nil, fault.Wrap(err, fault.Conflict, "expand", subject)
	}
	n.Status.Suspended = false
	if err := e.withinProvider(ctx, s, old, n.Spec.CapacityMin, "expand"); err != nil {
		return nil, err
	}
	if _, err := volumes.Put(ctx, e.cfg.Proposer, &n, old.ModifyIndex, nil); err != nil {
		return nil, err
	}
	return e.awaitExpansion(ctx, &n, r.Wait)
}

// awaitExpansion follows a volume until it has the size that asked has in its spec, until the provider has refused that
// permanently, or the wait is over. Where no more was asked than it had, that is the end of a cancelled expansion.
func (e *Endpoints) awaitExpansion(
	ctx context.Context, asked *volume.Volume, wait time.Duration,
) (*wire.VolumeWriteReply, error) {
	wctx, cancel := patience(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := e.cfg.Store.Snapshot()
		v := s.Volume(w, asked.ID)
		if v == nil {
			return nil, notFound("expand", asked.ID)
		}
		switch outcome, refused := expansionEnd(asked, v); {
		case refused != "":
			return nil, fault.New(fault.Conflict, "expand", `volume "`+asked.ID.String()+`"`,
				"unable to expand volume: "+refused)
		case outcome != "":
			return &wire.VolumeWriteReply{Index: max(s.Index(), 1), Volume: v, Outcome: outcome}, nil
		}
		if err := ownProvider(s, w, v, "expand"); err != nil {
			return nil, err
		}
		if w.Wait(wctx) != nil {
			return e.accepted(ctx, s, v, "expand", wait)
		}
	}
}

// expansionEnd is what came of an expansion that was asked for, or why nothing did; neither: it is under way. The
// volume may have gone through more than one state since it was looked at last.
func expansionEnd(asked, v *volume.Volume) (outcome, refused string) {
	size, phase := asked.Spec.CapacityMin, v.Status.Phase
	switch {
	case phase != volume.PhaseReady && phase != volume.PhaseExpanding:
		return "", "it is " + string(phase)
	case phase == volume.PhaseExpanding && v.Spec.CapacityMin == size:
		return "", ""
	case phase == volume.PhaseReady && v.Status.Capacity >= size:
		if size <= asked.Status.Capacity && v.Status.Capacity == asked.Status.Capacity {
			return "cancelled", ""
		}
		return "expanded", ""
	case phase == volume.PhaseExpanding, v.Spec.CapacityMin != size && v.Spec.CapacityMin > asked.Status.Capacity:
		return "", fmt.Sprintf("another size of %d bytes was asked for meanwhile", v.Spec.CapacityMin)
	case v.Status.LastError != "":
		return "", strings.TrimPrefix(v.Status.LastError, volume.ExpansionRefused)
	}
	return "", "it was cancelled"
}

package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// volumeExpand makes a volume larger. While it is being expanded another size takes the place of the one under way, and
// the size that it has cancels it: the last one asked for is the one that counts.
func (e *Endpoints) volumeExpand(ctx context.Context, r *wire.VolumeExpandRequest) (*wire.VolumeWriteReply, error) {
	for {
		s := e.cfg.Store.Snapshot()
		old := s.Volume(nil, r.Volume)
		if old == nil {
			return nil, notFound("expand", r.Volume)
		}
		n, err := e.expansion(ctx, s, old, r)
		if err != nil {
			return nil, err
		}
		if n == nil {
			return &wire.VolumeWriteReply{Volume: old, Outcome: "unchanged", Index: s.Index()}, nil
		}
		_, err = volumes.Put(ctx, e.cfg.Proposer, n, old.ModifyIndex, nil)
		if e.overtaken(err, old) {
			continue // a step of the expansion under way came in between, or another one was asked for
		}
		if err != nil {
			return nil, err
		}
		return e.awaitExpansion(ctx, n, r.Wait)
	}
}

// expansion is a volume that is to become larger as asked; nil: it is as large already.
func (e *Endpoints) expansion(
	ctx context.Context, s *state.Snap, old *volume.Volume, r *wire.VolumeExpandRequest,
) (*volume.Volume, error) {
	foreign := s.Plugin(nil, old.Spec.Plugin).Foreign(old.Status.Provider)
	if err := validate.May(old, validate.Expand, foreign); err != nil {
		return nil, err
	}
	cur, subject := old.Status.Capacity, `volume "`+r.Volume.String()+`"`
	switch {
	case r.Min > 0 && r.Min < cur:
		less, has := sizes.Differing(r.Min, cur)
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "expand", subject,
				fmt.Sprintf("%s are less than its %s: volumes cannot shrink", less, has)),
			"create a smaller one, and have a task copy the data")
	case r.Min > 0 && r.Min == cur && old.Status.Phase != volume.PhaseExpanding && old.Spec.CapacityMin <= cur:
		return nil, nil
	}
	n := *old
	if err := validate.Resize(&n, old, r.Min, r.Max, s.Plugin(nil, old.Spec.Plugin)); err != nil {
		return nil, fault.Wrap(err, fault.Conflict, "expand", subject)
	}
	n.Status.Suspended = false
	return &n, e.withinProvider(ctx, s, old, n.Spec.CapacityMin, "expand")
}

// awaitExpansion follows a volume until it is as large as asked, until the provider has refused that permanently, until
// less was asked for since, or the wait is over. As large as asked it is when the nodes that have it have followed. Who
// waits for less than was asked for since goes on waiting: the larger size is enough. Where no more was asked than it
// had, that is the end of a cancelled expansion.
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
		outcome, refused := expansionEnd(asked, v)
		growth := growthOf(s, w, v)
		switch {
		case refused != "":
			return nil, fault.New(fault.Conflict, "expand", `volume "`+asked.ID.String()+`"`,
				"unable to expand volume: "+refused)
		case outcome == expanded && growth == volume.GrowthAtRest:
			return e.grows(ctx, s, v, wait)
		case outcome != "" && (outcome != expanded || growth == volume.Grown):
			return &wire.VolumeWriteReply{Index: max(s.Index(), 1), Volume: v, Outcome: outcome}, nil
		}
		if err := ownProvider(s, w, v, "expand"); err != nil {
			return nil, err
		}
		if w.Wait(wctx) == nil {
			continue
		}
		if outcome == expanded {
			return e.grows(ctx, s, v, wait)
		}
		return e.accepted(ctx, s, v, "expand", wait)
	}
}

// expanded is the outcome of an expansion whose provider has made the volume as large as asked.
const expanded = "expanded"

// growthOf tells how far the nodes are that have a volume, together: pending while one of them may grow it by itself.
func growthOf(s *state.Snap, w *state.Watch, v *volume.Volume) volume.Growth {
	all := volume.Grown
	for i := range s.InventoriesOf(w, v.Staging()) {
		switch g := v.GrowthOn(i.Entry); g {
		case volume.Grown:
		case volume.GrowthPending:
			return g
		case volume.GrowthAtRest:
			all = g
		}
	}
	return all
}

// grows is the answer about a volume that its provider has made larger, and whose nodes have not all followed. Who
// named no time gets what it asked for, which is the provider's to give, and a warning.
func (e *Endpoints) grows(
	ctx context.Context, s *state.Snap, v *volume.Volume, wait time.Duration,
) (*wire.VolumeWriteReply, error) {
	if wait <= 0 && ctx.Err() == nil {
		return &wire.VolumeWriteReply{
			Index:    max(s.Index(), 1),
			Volume:   v,
			Outcome:  expanded,
			Warnings: []string{e.waitsFor(s, v)},
		}, nil
	}
	return e.accepted(ctx, s, v, "expand", wait)
}

// expansionEnd is what came of an expansion that was asked for, or why nothing did; neither: it is under way. The
// volume may have gone through more than one state since it was looked at last.
func expansionEnd(asked, v *volume.Volume) (outcome, refused string) {
	size, had := asked.Spec.CapacityMin, asked.Status.Capacity
	latest := v.Spec.CapacityMin
	ready, cancels := v.Status.Phase == volume.PhaseReady, size <= had
	reason, denied := strings.CutPrefix(v.Status.LastError, volume.ExpansionRefused)
	switch {
	case !ready && v.Status.Phase != volume.PhaseExpanding:
		return "", "it is " + string(v.Status.Phase)
	case cancels && ready && v.Status.Capacity == had:
		return "cancelled", ""
	case v.Status.Capacity >= size && (ready || !cancels):
		return expanded, ""
	case ready && denied: // nothing asks for the size any more
		return "", reason
	case latest < size && latest <= had:
		return "", "it was cancelled"
	case latest < size, latest > size && cancels:
		return "", "another size of " + sizes.Human(latest) + " was asked for meanwhile"
	case ready:
		return "", v.Status.LastError
	}
	return "", ""
}

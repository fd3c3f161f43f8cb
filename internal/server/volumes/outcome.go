package volumes

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/wire"
)

// done stores the success of a step.
func (k *Keeper) done(ctx context.Context, v *volume.Volume, step volume.VolumeStep, r *wire.ControllerResult) error {
	n := *k.latest(v)
	n.Status.LastError = ""
	n.Status.Tries = 0
	n.Status.NextTry = time.Time{}
	n.Status.Executor = ""
	switch step {
	case volume.StepCreate:
		if r.Created == nil {
			err := fault.New(fault.Internal, "create volume", v.ID.String(),
				"the node reported success without a volume")
			return k.failed(ctx, v, failure{cause: err, before: v.Status.Presence, reported: true})
		}
		k.created(&n, r)
	case volume.StepDelete:
		_, err := Forget(ctx, k.cfg.Proposer, v)
		return err
	case volume.StepExpand:
		n.Expanded(r.Capacity, time.Now())
		n.Status.NodeExpandPending = r.NodeExpansion
	}
	return k.put(ctx, &n)
}

func (k *Keeper) created(n *volume.Volume, r *wire.ControllerResult) {
	c := r.Created
	if madeHidden(r) {
		k.hidden(n, r)
		return
	}
	n.Status.ExternalID = c.ExternalID
	n.Status.Capacity = c.Capacity
	n.Status.Context = c.Context
	n.Status.Presence = volume.Present
	n.Status.Topologies = nil
	for _, t := range c.Topologies {
		n.Status.Topologies = append(n.Status.Topologies, plugin.Topology{Segments: t})
	}
	if n.Status.Phase != volume.PhaseCreating {
		return
	}
	n.Status.Phase = volume.PhaseReady
	if why := volume.Elsewhere(n.Spec.TopologyRequired, n.Status.Topologies); why != "" {
		n.Status.Phase, n.Status.Misplaced = volume.PhaseConflict, true
		n.Status.LastError = why
	}
}

// Pauses that no doubling gives: after a call that no plugin heard of, and after an answer that time alone does not
// mend.
const (
	unsentPause = time.Second
	finalPause  = 5 * time.Minute
)

// failure is an unsuccessful call with all that decides what it means.
type failure struct {
	cause   error
	before  volume.Presence // of the thing, before the intent
	certain bool            // this call did nothing
	unsent  bool            // and no plugin heard of it: it does not count
	settled bool            // no call of the expansion was of an unknown end before it
	final   bool            // and it never will, with these arguments
	// reported: the call has ended, or was never begun. Else its executor may be at it still.
	reported bool
}

// failed stores the error. A creation that was refused permanently, and of which nothing can exist, is over: the user
// has the answer, and the name is free again. An expansion that was refused permanently goes back to ready.
func (k *Keeper) failed(ctx context.Context, v *volume.Volume, f failure) error {
	n := *k.latest(v)
	n.Status.LastError = f.cause.Error()
	n.Status.NextTry = k.rests.For(v.ID.String(), unsentPause)
	if !f.unsent {
		n.Status.Tries++
		n.Status.NextTry = k.rests.For(v.ID.String(),
			controllers.Backoff.Spread(n.Status.Tries, v.ID.String()))
	}
	if f.reported {
		n.Status.Executor = ""
	}
	if f.certain && f.before != volume.Uncertain {
		n.Status.Presence = f.before
	}
	switch {
	case f.final && n.Status.Phase == volume.PhaseCreating && n.Status.Presence == volume.Absent:
		n.Status.Phase = volume.PhaseFailed
	case f.final && n.Status.Phase == volume.PhaseExpanding:
		n.RefuseExpansion(f.cause.Error(), time.Now())
	case f.certain && n.Status.Phase == volume.PhaseExpanding && (f.settled || !f.unsent):
		n.SettleExpansion(time.Now())
	case f.final:
		n.Status.NextTry = k.rests.For(v.ID.String(), finalPause)
	}
	k.cfg.Log.Warn("a volume operation did not succeed", logkey.Volume, v.ID.String(), logkey.Plugin, v.Spec.Plugin,
		"phase", v.Status.Phase, logkey.Attempt, n.Status.Tries, logkey.Error, f.cause)
	return k.put(ctx, &n)
}

// permanent reports whether a call that did nothing is not worth repeating with its arguments. That there is no
// capacity in the place that was asked for ends a creation; what grows waits for some.
func permanent(retry volume.Retry, creates bool) bool {
	switch retry {
	case volume.RetryNever:
		return true
	case volume.RetryOtherPlace:
		return creates
	case volume.RetryBackoff, volume.RetrySlow, volume.RetryVerify, volume.RetrySecrets, volume.RetryAborted,
		volume.RetryAfterUndo, volume.RetryOffline, volume.RetryRestartListing:
	}
	return false
}

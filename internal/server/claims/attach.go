package claims

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// work brings the attachments of one of the providers' volumes on by one call at a time.
func (k *Keeper) work(ctx context.Context, id volume.StagingKey) (reconcile.Result, error) {
	k.open.Put(id) // before the facts are read: what changes from here on looks again
	for ctx.Err() == nil {
		s := k.cfg.Store.Snapshot()
		todo, again, converged := k.due(s, id)
		if todo == nil {
			if converged {
				k.open.Drop(id)
			}
			return again, nil
		}
		release, err := k.cfg.Dispatch.Lane(ctx, id.Plugin, id.ExternalID)
		if err != nil {
			return reconcile.Done(), err
		}
		// Whatever held the lane may have changed everything: decide anew.
		s = k.cfg.Store.Snapshot()
		next, _, _ := k.due(s, id)
		if next != nil && !next.forget {
			if why := k.cfg.Dispatch.Queue(s, id, controllers.SubjectOf(next.a), next.executor); why != "" {
				release()
				return reconcile.Again(time.Minute, why), nil
			}
		}
		if next != nil {
			err = k.call(ctx, next)
		}
		release()
		if err != nil {
			return reconcile.Done(), err
		}
	}
	return reconcile.Done(), nil
}

// pendingCall is one call that is due: on a copy of the stored attachment, or on a new one.
type pendingCall struct {
	a        *volume.Attachment
	detach   bool
	forget   bool // no call: it is detached
	executor ids.Node
	provider string
}

// due picks the first legal call whose pause is over and whose executor is there; without one, when to look again. What
// is waited for besides is in the state: its change marks the volume again; converged: there is nothing.
func (k *Keeper) due(
	s *state.Snap, id volume.StagingKey,
) (call *pendingCall, again reconcile.Result, converged bool) {
	f, rec := attaching.Facts(s, id)
	steps, converged := attaching.Next(f)
	shortest := time.Duration(0)
	for _, step := range steps {
		if step.Verb == volume.Forget {
			a := s.Attachment(nil, volume.AttachmentKey{StagingKey: id, Node: step.Node})
			return &pendingCall{a: a, forget: true}, reconcile.Done(), false
		}
		a := attaching.Record(s, id, rec, step.Node)
		if a == nil {
			continue // the node's plugin has not reported its storage node id; its registration marks the volume again
		}
		detach := step.Verb == volume.Detach
		if !detach && refused(s, a) {
			continue // what the refusal stands on marks the volume again when it changes
		}
		// A pause is of the verb that failed: what was refused for an hour is undone at once.
		if pause := k.rests.Left(a.Key(), a.NextTry); pause > 0 && detach == a.Detaching {
			if shortest == 0 || pause < shortest {
				shortest, again = pause, reconcile.Again(pause, a.LastError)
			}
			continue
		}
		executor, why := k.cfg.Dispatch.SameExecutor(s, a.Plugin, a.Executor, attaching.HomeOf(s, id),
			attaching.Timeout)
		provider := attaching.ProviderOf(s, nil, id)
		if foreign := s.Plugin(nil, a.Plugin).Foreign(provider); foreign != "" {
			executor, why = "", foreign
		}
		if held := suspension.Call(s, id, detach); held != nil {
			executor, why = "", held.String()
		}
		if executor == "" {
			if shortest == 0 {
				again = reconcile.Again(time.Minute, why)
			}
			continue
		}
		return &pendingCall{a: a, detach: detach, executor: executor, provider: provider}, reconcile.Done(), false
	}
	return nil, again, converged
}

// call commits the intent, makes the call and stores what it came to. The caller holds the volume's lane.
func (k *Keeper) call(ctx context.Context, p *pendingCall) error {
	a := p.a
	if p.forget {
		return k.forget(ctx, a)
	}
	before, basis := a.Presence, attaching.Basis(k.cfg.Store.Snapshot(), nil, a.Staging(), a.Node)
	if a.Detaching != p.detach {
		a.Tries = 0
	}
	secrets, err := k.cfg.Secrets.Secrets(a.Secrets)
	if err != nil {
		a.Detaching = p.detach
		return k.failed(ctx, a, err, outcome{retry: volume.RetrySecrets, ended: true, presence: before})
	}
	if a, err = k.intend(ctx, p); err != nil {
		return err
	}
	report, err := k.cfg.Dispatch.Do(ctx, p.executor, callOf(a, p.provider, secrets))
	if err != nil {
		// Unavailable: no plugin heard of the call. Else the node may be making the call: it stays the executor.
		o := outcome{retry: volume.RetryBackoff, presence: volume.Uncertain}
		if fault.Has(err, fault.Unavailable) {
			o.ended = true
			o.unsent = true
			o.presence = before
		}
		return k.failed(ctx, a, err, o)
	}
	uncertain, err := controllers.Failure(report)
	if p.detach && controllers.NeedsVerification(report) {
		if against := k.verifier.Detached(ctx, a, p.executor,
			attaching.HomeOf(k.cfg.Store.Snapshot(), a.Staging()), p.provider); against != nil {
			err = controllers.Unverified(err, against)
		} else {
			err = nil
		}
	}
	if err != nil {
		o := outcome{retry: report.Err.Retry, ended: true, presence: volume.Uncertain, basis: basis}
		if !uncertain && !p.detach && !before.Exists() {
			o.presence = before // this call did nothing, and no earlier one is in doubt
		}
		return k.failed(ctx, a, err, o)
	}
	k.succeeds(a)
	if p.detach {
		return k.detached(ctx, a)
	}
	a.Presence = volume.Present
	a.PublishContext = report.PublishContext
	a.Executor = ""
	a.LastError = ""
	a.Tries = 0
	a.NextTry = time.Time{}
	a.Remake = false
	if _, err = k.store(ctx, a); err == nil {
		k.relieve(ctx, a)
	}
	return err
}

// succeeds says that what failed before does so no more.
func (k *Keeper) succeeds(a *volume.Attachment) {
	if a.LastError != "" {
		k.cfg.Log.Info("an attachment succeeds again", logkey.Volume, a.Volume.String(), logkey.Node, a.Node)
	}
}

// intend commits that the call may have been made, unless the stored attachment says so already: the command that ended
// the claim noted it, or the end of such a call by the same executor was not known.
func (k *Keeper) intend(ctx context.Context, p *pendingCall) (*volume.Attachment, error) {
	a := p.a
	if a.Presence == volume.Uncertain && a.Detaching == p.detach && a.Executor == p.executor {
		return a, nil
	}
	a.Detaching = p.detach
	a.Executor = p.executor
	a.Presence = volume.Uncertain
	return k.store(ctx, a)
}

// store commits a copy and returns the stored state as another copy.
func (k *Keeper) store(ctx context.Context, a *volume.Attachment) (*volume.Attachment, error) {
	n := *a
	stored, _, err := fsm.Propose[*volume.Attachment](ctx, k.cfg.Proposer,
		&fsm.AttachmentPut{Attachment: &n, Seen: a.ModifyIndex})
	if err != nil {
		return a, err
	}
	c := *stored
	return &c, nil
}

// forget drops the record of what is detached.
func (k *Keeper) forget(ctx context.Context, a *volume.Attachment) error {
	_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.AttachmentForget{Key: fsm.RefTo(a), Seen: a.ModifyIndex})
	if err == nil && a.Presence.Exists() {
		k.relieve(ctx, a)
	}
	return err
}

// detached forgets an attachment, unless it was undone only to be made in another way: then it keeps count, so that
// what fails again and again is tried less and less often.
func (k *Keeper) detached(ctx context.Context, a *volume.Attachment) error {
	if !a.Remake {
		return k.forget(ctx, a)
	}
	a.Presence = volume.Absent
	a.Detaching = false
	a.Executor = ""
	a.NextTry = k.rests.For(a.Key(), controllers.Backoff.Spread(a.Tries, a.Volume.String()))
	_, err := k.store(ctx, a)
	return err
}

// outcome is how a call failed.
type outcome struct {
	retry    volume.Retry
	ended    bool            // it is not under way any more
	unsent   bool            // no plugin heard of it: it does not count
	presence volume.Presence // of the attachment, for all that is known
	basis    string          // what the answer stands on
}

// failed stores the error for people and the time of the next try. Unless nothing can have come of the call, and of any
// before it, the attachment stays uncertain, which counts as attached.
func (k *Keeper) failed(ctx context.Context, a *volume.Attachment, cause error, o outcome) error {
	say, before := k.cfg.Log.Warn, a.LastError
	if a.LastError = cause.Error(); a.LastError == before { // the try before said so
		say = k.cfg.Log.Debug
	}
	a.Presence = o.presence
	if o.ended {
		a.Executor = ""
	}
	pause, undo := unsentPause, false
	if !o.unsent {
		a.Tries++
		if o.retry == volume.RetryNever && !a.Detaching && o.basis != "" {
			k.cfg.Log.Warn("an attachment was permanently refused", logkey.Volume, a.Volume.String(), logkey.Node,
				a.Node, logkey.Error, cause)
			return k.refuse(ctx, a, o.basis)
		}
		pause, undo = afterFailure(o.retry, a.Tries, a.Volume.String())
	}
	if undo && !a.Detaching {
		a.Detaching = true
		a.Remake = true
		a.Presence = volume.Uncertain
	}
	a.NextTry = k.rests.For(a.Key(), pause)
	say("an attachment did not succeed", logkey.Volume, a.Volume.String(), logkey.Node, a.Node,
		logkey.Attempt, a.Tries, logkey.NextTry, a.NextTry, logkey.Error, cause)
	if o.retry == volume.RetryOtherPlace && !a.Detaching {
		return k.exhausted(ctx, a)
	}
	_, err := k.store(ctx, a)
	return err
}

// afterFailure returns how long an attachment rests after so many tries, and whether it is undone first: it was
// attached in another way.
func afterFailure(retry volume.Retry, tries int, who string) (pause time.Duration, undo bool) {
	switch retry {
	case volume.RetryNever:
		return neverAgain, false
	case volume.RetrySlow:
		return slowAgain, false
	case volume.RetryAfterUndo:
		return controllers.Backoff.Spread(tries, who), true
	case volume.RetryBackoff, volume.RetryVerify, volume.RetrySecrets, volume.RetryAborted, volume.RetryOtherPlace,
		volume.RetryOffline, volume.RetryRestartListing:
	}
	return controllers.Backoff.Spread(tries, who), false
}

// Pauses after answers that time alone does not mend.
const (
	slowAgain   = 5 * time.Minute
	neverAgain  = time.Hour
	unsentPause = time.Second // after a call that no plugin heard of
)

func callOf(a *volume.Attachment, provider string, secrets wire.Secrets) *wire.ControllerCall {
	w := &wire.ControllerCall{
		Kind:       wire.CallAttach,
		Subject:    controllers.SubjectOf(a),
		Generation: a.Generation,
		Plugin:     a.Plugin,
		Provider:   provider,
		Timeout:    attaching.Timeout,
		Secrets:    secrets,
		Attach: &wire.AttachArgs{
			ExternalID:     a.ExternalID,
			StorageNode:    a.StorageNode,
			AccessMode:     a.AccessMode,
			AttachmentMode: a.AttachmentMode,
			MountOptions:   a.MountOptions,
			ReadOnly:       a.ReadOnly,
			VolumeContext:  a.VolumeContext,
		},
	}
	if a.Detaching {
		w.Kind = wire.CallDetach
	}
	return w
}

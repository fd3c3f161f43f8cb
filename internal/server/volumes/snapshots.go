package volumes

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// stepSnapshot makes the next call of one snapshot. Creating is repeated until the provider says that it is ready to
// use.
func (k *Keeper) stepSnapshot(ctx context.Context, id string) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	cur := s.VolumeSnapshot(nil, id)
	if cur == nil || cur.Suspended || cur.Phase != volume.PhaseCreating && cur.Phase != volume.PhaseDeleting {
		return reconcile.Done(), nil
	}
	if cur.Phase == volume.PhaseDeleting && !cur.MayExist() {
		return reconcile.Done(), ForgetSnapshot(ctx, k.cfg.Proposer, id)
	}
	if pause := k.rests.Left(id, cur.NextTry); pause > 0 {
		return reconcile.Again(pause, cur.LastError), nil
	}
	executor, why := k.cfg.Dispatch.SameExecutor(s, cur.Plugin, cur.Executor, cur.HomeNode, controllerTimeout)
	if against := snapshotHeld(s, cur); against != "" {
		executor, why = "", against
	}
	if executor == "" {
		return reconcile.Again(time.Minute, why), nil
	}
	release, err := k.cfg.Dispatch.Lane(ctx, cur.Plugin, cur.SourceExternalID)
	if err != nil {
		return reconcile.Done(), err
	}
	defer release()
	s = k.cfg.Store.Snapshot()
	if now := s.VolumeSnapshot(nil, id); now == nil || now.ModifyIndex != cur.ModifyIndex ||
		snapshotHeld(s, now) != "" {
		return reconcile.Done(), nil // it has changed while the lane was waited for, and is decided anew
	}
	if why := k.cfg.Dispatch.Queue(s, sourceOf(cur), controllers.SnapshotSubject(cur), executor); why != "" {
		return reconcile.Again(time.Minute, why), nil
	}
	return k.callSnapshot(ctx, cur, executor)
}

func sourceOf(sn *volume.Snapshot) volume.StagingKey {
	return volume.StagingKey{Plugin: sn.Plugin, ExternalID: sn.SourceExternalID}
}

// snapshotHeld says why no call about a snapshot is made; empty: one may be.
func snapshotHeld(s *state.Snap, sn *volume.Snapshot) string {
	if held := suspension.Call(s, sourceOf(sn), sn.Phase == volume.PhaseDeleting); held != nil {
		return held.String()
	}
	return s.Plugin(nil, sn.Plugin).Foreign(sn.Provider)
}

// callSnapshot commits the intent, makes the call and stores what it came to.
func (k *Keeper) callSnapshot(ctx context.Context, cur *volume.Snapshot, executor ids.Node) (reconcile.Result, error) {
	s, sn := k.cfg.Store.Snapshot(), *cur
	secrets, err := k.cfg.Secrets.Secrets(sn.Secrets)
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, failure{cause: err, reported: true})
	}
	before := volume.Absent
	if sn.MayExist() {
		before = max(sn.Presence, volume.Uncertain)
	}
	if sn.Executor != executor || !sn.Presence.Exists() {
		if sn.Executor == "" && sn.Tries == 0 {
			sn.Generation++ // a repetition keeps its number
		}
		sn.Executor = executor
		sn.Presence = max(sn.Presence, volume.Uncertain)
		if rec := s.Plugin(nil, sn.Plugin); rec != nil && rec.Scope == plugin.ScopeNode {
			sn.HomeNode = executor
		}
		if err := k.putSnapshot(ctx, &sn); err != nil {
			return reconcile.Done(), err
		}
	}
	w := snapshotCall(&sn, secrets)
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		unsent := fault.Has(err, fault.Unavailable)
		return reconcile.Done(), k.snapshotFailed(ctx, &sn,
			failure{
				cause:    err,
				before:   before,
				certain:  unsent,
				unsent:   unsent,
				reported: unsent,
			})
	}
	uncertain, err := controllers.Failure(report)
	if made := report.Snapshot; w.Kind == wire.CallSnapshot && made != nil && made.HiddenID != "" {
		return reconcile.Done(), k.hiddenSnapshot(ctx, &sn, made.HiddenID, err)
	}
	if w.Kind == wire.CallDeleteSnapshot && controllers.NeedsVerification(report) {
		against := k.verifier.SnapshotDeleted(ctx, &sn, executor, secrets)
		if against == nil {
			return k.snapshotDone(ctx, &sn, report)
		}
		err = controllers.Unverified(err, against)
	}
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn,
			failure{
				cause:    err,
				before:   before,
				certain:  !uncertain,
				final:    !uncertain && permanent(report.Err.Retry, true),
				reported: true,
			})
	}
	return k.snapshotDone(ctx, &sn, report)
}

// readyPause is how soon the provider is asked again whether a snapshot is ready to use.
const readyPause = 500 * time.Millisecond

func snapshotCall(sn *volume.Snapshot, secrets wire.Secrets) *wire.ControllerCall {
	w := &wire.ControllerCall{
		Kind:       wire.CallSnapshot,
		Subject:    controllers.SnapshotSubject(sn),
		Generation: sn.Generation,
		Plugin:     sn.Plugin,
		Provider:   sn.Provider,
		Timeout:    controllerTimeout,
		Secrets:    secrets,
		Snapshot: &wire.SnapshotArgs{
			Name:       sn.Name,
			SourceID:   sn.SourceExternalID,
			SnapshotID: sn.ExternalID,
			HiddenID:   sn.HiddenID,
			Parameters: sn.Parameters,
		},
	}
	if sn.Phase == volume.PhaseDeleting && sn.IDKnown() {
		w.Kind = wire.CallDeleteSnapshot
	}
	return w
}

func (k *Keeper) snapshotDone(
	ctx context.Context, sn *volume.Snapshot, r *wire.ControllerResult,
) (reconcile.Result, error) {
	if sn.Phase == volume.PhaseDeleting && sn.IDKnown() {
		return reconcile.Done(), ForgetSnapshot(ctx, k.cfg.Proposer, sn.ID)
	}
	if r.Snapshot == nil {
		return reconcile.Done(),
			k.snapshotFailed(ctx, sn,
				failure{
					cause: fault.New(fault.Internal, "create snapshot", sn.Name,
						"the node reported success without a snapshot"),
					before:   volume.Uncertain,
					reported: true,
				})
	}
	n := *sn
	n.ExternalID = r.Snapshot.ExternalID
	n.Size = r.Snapshot.Size
	n.CreateTime = r.Snapshot.CreateTime
	n.Ready = r.Snapshot.Ready
	n.Presence = volume.Present
	n.Executor = ""
	n.LastError = ""
	n.Tries = 0
	n.NextTry = time.Time{}
	if !n.Ready {
		n.NextTry = k.rests.For(n.ID, readyPause) // in the record, or its own change would have it asked at once
	}
	if n.Ready && n.Phase == volume.PhaseCreating {
		n.Phase = volume.PhaseReady
	}
	if err := k.putSnapshot(ctx, &n); err != nil {
		return reconcile.Done(), err
	}
	if !n.Ready {
		return reconcile.Again(readyPause, "the provider says that the snapshot is not ready to use yet"), nil
	}
	return reconcile.Done(), nil
}

// snapshotFailed stores the error. A snapshot that was refused permanently, and of which nothing can exist, is over.
func (k *Keeper) snapshotFailed(ctx context.Context, sn *volume.Snapshot, f failure) error {
	n := *sn
	n.LastError = f.cause.Error()
	n.NextTry = k.rests.For(n.ID, unsentPause)
	if !f.unsent {
		n.Tries++
		n.NextTry = k.rests.For(n.ID, controllers.Backoff.Spread(n.Tries, n.SourceExternalID))
	}
	if f.reported {
		n.Executor = ""
	}
	if f.certain && f.before == volume.Absent {
		n.Presence = volume.Absent
	}
	switch {
	case f.final && n.Phase == volume.PhaseCreating && !n.MayExist():
		n.Phase = volume.PhaseFailed
	case f.final && n.Phase == volume.PhaseCreating:
		n.NextTry = k.rests.For(n.ID, finalPause)
	}
	k.cfg.Log.Warn("a snapshot operation did not succeed", logkey.Volume, string(sn.Source), logkey.Plugin, sn.Plugin,
		"phase", sn.Phase, logkey.Attempt, n.Tries, logkey.Error, f.cause)
	return k.putSnapshot(ctx, &n)
}

func (k *Keeper) putSnapshot(ctx context.Context, sn *volume.Snapshot) error {
	stored, err := PutSnapshot(ctx, k.cfg.Proposer, sn, nil)
	if err != nil {
		return err
	}
	*sn = *stored
	return nil
}

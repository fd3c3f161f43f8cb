package volumes

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/reconcile"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/wire"
)

// stepSnapshot makes the next call of one snapshot. Creating is repeated until the provider says that it is ready to
// use.
func (k *Keeper) stepSnapshot(ctx context.Context, id string) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	cur := s.VolumeSnapshot(nil, id)
	if cur == nil || cur.Phase != volume.PhaseCreating && cur.Phase != volume.PhaseDeleting {
		return reconcile.Done(), nil
	}
	if pause := time.Until(cur.NextTry); pause > 0 {
		return reconcile.Again(pause, cur.LastError), nil
	}
	executor, why := k.cfg.Dispatch.Executor(s, cur.Plugin, cur.HomeNode)
	if executor == "" {
		return reconcile.Again(time.Minute, why), nil
	}
	release, err := k.cfg.Dispatch.Lane(ctx, cur.Plugin, cur.SourceExternalID)
	if err != nil {
		return reconcile.Done(), err
	}
	defer release()
	sn := *cur
	if sn.Executor != executor {
		sn.Executor = executor
		sn.Generation++
		if rec := s.Plugin(nil, sn.Plugin); rec != nil && rec.Scope == plugin.ScopeNode {
			sn.HomeNode = executor
		}
		if err := k.putSnapshot(ctx, &sn); err != nil {
			return reconcile.Done(), err
		}
	}
	secrets, err := k.cfg.Secrets.Secrets(sn.Secrets)
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, err, false)
	}
	w := snapshotCall(&sn, secrets)
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, err, false)
	}
	uncertain, err := controllers.Failure(report)
	if w.Kind == wire.CallDeleteSnapshot && controllers.NeedsVerification(report) {
		against := k.verifier.SnapshotDeleted(ctx, &sn, executor, secrets)
		if against == nil {
			return k.snapshotDone(ctx, &sn, report)
		}
		err = controllers.Unverified(err, against)
	}
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, err, !uncertain && permanent(report.Err.Retry, true))
	}
	return k.snapshotDone(ctx, &sn, report)
}

// readyPause is how soon the provider is asked again whether a snapshot is ready to use.
const readyPause = 500 * time.Millisecond

func snapshotCall(sn *volume.Snapshot, secrets wire.Secrets) *wire.ControllerCall {
	w := &wire.ControllerCall{
		Kind:       wire.CallSnapshot,
		Subject:    "snapshot " + sn.ID,
		Generation: sn.Generation,
		Plugin:     sn.Plugin,
		Timeout:    controllerTimeout,
		Secrets:    secrets,
		Snapshot: &wire.SnapshotArgs{
			Name:       sn.Name,
			SourceID:   sn.SourceExternalID,
			SnapshotID: sn.ExternalID,
			Parameters: sn.Parameters,
		},
	}
	if sn.Phase == volume.PhaseDeleting && sn.ExternalID != "" {
		w.Kind = wire.CallDeleteSnapshot
	}
	return w
}

func (k *Keeper) snapshotDone(
	ctx context.Context, sn *volume.Snapshot, r *wire.ControllerResult,
) (reconcile.Result, error) {
	if sn.Phase == volume.PhaseDeleting && sn.ExternalID != "" {
		return reconcile.Done(), ForgetSnapshot(ctx, k.cfg.Proposer, sn.ID)
	}
	if r.Snapshot == nil {
		return reconcile.Done(),
			k.snapshotFailed(ctx, sn,
				fault.New(fault.Internal, "create snapshot", sn.Name, "the node reported success without a snapshot"),
				false)
	}
	n := *sn
	n.ExternalID = r.Snapshot.ExternalID
	n.Size = r.Snapshot.Size
	n.CreateTime = r.Snapshot.CreateTime
	n.Ready = r.Snapshot.Ready
	n.LastError = ""
	n.Tries = 0
	n.NextTry = time.Time{}
	if !n.Ready {
		n.NextTry = time.Now().Add(readyPause).UTC() // in the record, or its own change would have it asked at once
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

func (k *Keeper) snapshotFailed(ctx context.Context, sn *volume.Snapshot, cause error, final bool) error {
	n := *sn
	n.LastError = cause.Error()
	n.Tries++
	n.NextTry = time.Now().Add(controllers.Backoff.Spread(n.Tries, n.SourceExternalID)).UTC()
	if final && n.Phase == volume.PhaseCreating && n.ExternalID == "" {
		n.Phase = volume.PhaseFailed
	}
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

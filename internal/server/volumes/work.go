package volumes

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/reconcile"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/claims"
	"berth/internal/server/dispatch"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// workFor builds the call of a step from the stored record alone, so that a repetition carries equal arguments.
func (k *Keeper) workFor(s *state.Snap, v *volume.Volume, step volume.VolumeStep) (*wire.Work, error) {
	secrets, err := k.cfg.Secrets.Secrets(v.Spec.Secrets)
	if err != nil {
		return nil, err
	}
	w := &wire.Work{Subject: v.ID.String(), Generation: v.Status.Generation, Plugin: v.Spec.Plugin, Timeout: controllerTimeout, Secrets: secrets}
	arg := &wire.VolumeWork{Volume: v.ID, ExternalID: v.Status.ExternalID, Min: v.Status.WantedMin, Max: v.Status.WantedMax,
		AccessMode: v.Status.AccessMode, AttachmentMode: v.Status.AttachmentMode, MountOptions: v.Spec.MountOptions}
	switch step {
	case volume.StepDelete:
		w.Kind, w.Volume = wire.WorkDelete, arg
	case volume.StepExpand:
		w.Kind, w.Volume = wire.WorkExpand, arg
		if v.Status.AccessMode != "" {
			arg.MountOptions = v.Status.MountOptions // as the attachments carry it
		}
		if arg.AccessMode == "" && len(v.Spec.Capabilities) > 0 {
			arg.AccessMode, arg.AttachmentMode = v.Spec.Capabilities[0].AccessMode, v.Spec.Capabilities[0].AttachmentMode
		}
	default:
		w.Kind, w.Timeout = wire.WorkCreate, createTimeout
		w.Create = &wire.CreateWork{Name: ProviderName(clusterID(s), v), Spec: v.Spec, SourceSnapshot: v.Spec.SnapshotID}
		w.Create.Spec.Secrets = ""
		if v.Spec.CloneID != "" {
			src := sourceVolume(s, v)
			if src == nil || src.Status.ExternalID == "" {
				return nil, fault.New(fault.NotFound, "create volume", v.ID.String(), "the volume to clone, "+v.Spec.CloneID+", does not exist")
			}
			w.Create.SourceVolume = src.Status.ExternalID
		}
	}
	return w, nil
}

func clusterID(s *state.Snap) string {
	if m := s.Meta(nil); m != nil {
		return m.ClusterID
	}
	return ""
}

// workSnapshot makes the next call of one snapshot. Creating is repeated until the provider says that it is ready to use.
func (k *Keeper) workSnapshot(ctx context.Context, id string) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	cur := s.VolumeSnapshot(nil, id)
	if cur == nil || cur.Phase != volume.PhaseCreating && cur.Phase != volume.PhaseDeleting {
		return reconcile.Done(), nil
	}
	if pause := time.Until(cur.NextTry); pause > 0 {
		return reconcile.Again(pause, cur.LastError), nil
	}
	executor, why := claims.Executor(s, k.cfg.Dispatch, cur.Plugin, cur.HomeNode)
	if executor == "" {
		return reconcile.Again(time.Minute, why), nil
	}
	release, err := k.cfg.Dispatch.Lane(ctx, claims.LaneOf(cur.Plugin, cur.SourceExternalID))
	if err != nil {
		return reconcile.Done(), claims.Ending(ctx, err)
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
	w := snapshotWork(&sn, secrets)
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, err, false)
	}
	uncertain, err := dispatch.Failure(report)
	if w.Kind == wire.WorkDeleteSnapshot && claims.Doubt(report) {
		wrong := k.verifier().SnapshotDeleted(ctx, &sn, executor, secrets)
		if wrong == nil {
			return k.snapshotDone(ctx, &sn, report)
		}
		err = claims.Unproven(err, wrong)
	}
	if err != nil {
		return reconcile.Done(), k.snapshotFailed(ctx, &sn, err, !uncertain && (report.Err.Retry == "never" || report.Err.Retry == "other-place" || report.Err.Retry == "offline"))
	}
	return k.snapshotDone(ctx, &sn, report)
}

func snapshotWork(sn *volume.Snapshot, secrets wire.Secrets) *wire.Work {
	w := &wire.Work{Kind: wire.WorkSnapshot, Subject: "snapshot " + sn.ID, Generation: sn.Generation, Plugin: sn.Plugin,
		Timeout: controllerTimeout, Secrets: secrets,
		Snapshot: &wire.SnapshotWork{Name: sn.Name, SourceID: sn.SourceExternalID, SnapshotID: sn.ExternalID, Parameters: sn.Parameters}}
	if sn.Phase == volume.PhaseDeleting && sn.ExternalID != "" {
		w.Kind = wire.WorkDeleteSnapshot
	}
	return w
}

func (k *Keeper) snapshotDone(ctx context.Context, sn *volume.Snapshot, r *wire.WorkReport) (reconcile.Result, error) {
	if sn.Phase == volume.PhaseDeleting && sn.ExternalID != "" {
		_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.SnapshotForget{ID: sn.ID})
		return reconcile.Done(), err
	}
	if r.Snapshot == nil {
		return reconcile.Done(), k.snapshotFailed(ctx, sn, fault.New(fault.Internal, "create snapshot", sn.Name, "the node reported success without a snapshot"), false)
	}
	n := *sn
	n.ExternalID, n.Size, n.CreateTime, n.Ready = r.Snapshot.ExternalID, r.Snapshot.Size, r.Snapshot.CreateTime, r.Snapshot.Ready
	n.LastError, n.Tries = "", 0
	if n.Ready && n.Phase == volume.PhaseCreating {
		n.Phase = volume.PhaseReady
	}
	if err := k.putSnapshot(ctx, &n); err != nil {
		return reconcile.Done(), err
	}
	if !n.Ready {
		return reconcile.Again(500*time.Millisecond, "the provider says that the snapshot is not ready to use yet"), nil
	}
	return reconcile.Done(), nil
}

func (k *Keeper) snapshotFailed(ctx context.Context, sn *volume.Snapshot, cause error, final bool) error {
	n := *sn
	n.LastError = cause.Error()
	n.Tries++
	n.NextTry = time.Now().Add(claims.Backoff(n.Tries)).UTC()
	if final && n.Phase == volume.PhaseCreating && n.ExternalID == "" {
		n.Phase = volume.PhaseFailed
	}
	return k.putSnapshot(ctx, &n)
}

func (k *Keeper) putSnapshot(ctx context.Context, sn *volume.Snapshot) error {
	stored, _, err := fsm.Propose[*volume.Snapshot](ctx, k.cfg.Proposer, &fsm.SnapshotPut{Snapshot: sn, Seen: sn.ModifyIndex})
	if err != nil {
		return err
	}
	*sn = *stored
	return nil
}

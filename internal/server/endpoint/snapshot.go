package endpoint

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// maxSnapshotName leaves room, within what plugins must accept (CSI spec, "Size Limits"), for what makes a name unique.
const maxSnapshotName = 128 - 16

func (e *Endpoints) snapshotCreate(ctx context.Context, r *wire.SnapshotCreateRequest) (*wire.SnapshotReply, error) {
	s := e.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	subject := `volume "` + r.Volume.String() + `"`
	switch {
	case v == nil:
		return nil, notFound("snapshot", r.Volume)
	case v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding: // the lane orders the calls
		return nil, fault.New(fault.Busy, "snapshot", subject, "it is "+string(v.Status.Phase))
	case len(r.Name) > maxSnapshotName:
		return nil, fault.New(fault.Invalid, "snapshot", subject,
			fmt.Sprintf("the name has %d bytes, the limit is %d", len(r.Name), maxSnapshotName))
	}
	rec := s.Plugin(nil, v.Spec.Plugin)
	if why := rec.Foreign(v.Status.Provider); why != "" {
		return nil, fault.New(fault.NotReady, "snapshot", subject, why)
	}
	if rec == nil || !rec.Controller.CreateSnapshot {
		return nil, fault.New(fault.Conflict, "snapshot", subject,
			fmt.Sprintf("plugin %q does not support snapshots", v.Spec.Plugin))
	}
	id := ids.New()
	name := r.Name
	if name == "" {
		name = string(v.ID.ID)
	}
	sn := &volume.Snapshot{
		ID:               id,
		Name:             name + "-" + id[:8],
		Namespace:        r.Volume.Namespace,
		Plugin:           v.Spec.Plugin,
		Source:           v.ID.ID,
		SourceExternalID: v.Status.ExternalID,
		Provider:         v.Status.Provider,
		Parameters:       r.Parameters,
		HomeNode:         v.Status.HomeNode,
		Phase:            volume.PhaseCreating,
		Secrets:          v.Spec.Secrets,
	}
	var secret []byte
	if len(r.Secrets.Values) > 0 {
		var err error
		sn.Secrets = "snapshot/" + id
		if secret, err = e.cfg.Secrets.Seal(sn.Secrets, r.Secrets.Open()); err != nil {
			return nil, err
		}
	}
	if _, err := volumes.PutSnapshot(ctx, e.cfg.Proposer, sn, secret); err != nil {
		return nil, err
	}
	return e.awaitSnapshot(ctx, id, r.Wait)
}

// awaitSnapshot follows a snapshot until it is ready to use, or until the provider refused it.
func (e *Endpoints) awaitSnapshot(ctx context.Context, id string, wait time.Duration) (*wire.SnapshotReply, error) {
	if wait <= 0 {
		wait = defaultWait
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := e.cfg.Store.Snapshot()
		sn := s.VolumeSnapshot(w, id)
		switch {
		case sn == nil:
			return nil, fault.New(fault.NotFound, "snapshot", id, "the snapshot was deleted")
		case sn.Phase == volume.PhaseFailed:
			err := volumes.ForgetSnapshot(ctx, e.cfg.Proposer, id)
			return nil, joinQuiet(fault.New(fault.Conflict, "snapshot", `volume "`+string(sn.Source)+`"`, sn.LastError),
				err)
		case sn.Phase == volume.PhaseReady:
			return &wire.SnapshotReply{Index: max(s.Index(), 1), Snapshot: sn}, nil
		}
		if w.Wait(wctx) != nil {
			return nil, fault.WithHint(
				fault.New(fault.Timeout, "snapshot", `volume "`+string(sn.Source)+`"`,
					"it is not ready after "+wait.String()+": "+sn.LastError),
				"the work goes on; look at it with: berth volume snapshot list -plugin "+string(sn.Plugin))
		}
	}
}

func (e *Endpoints) snapshotDelete(ctx context.Context, r *wire.SnapshotDeleteRequest) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	var sn *volume.Snapshot
	for o := range s.VolumeSnapshotsByExternalID(nil, r.Plugin, r.SnapshotID) {
		sn = o
	}
	if sn == nil {
		sn = s.VolumeSnapshot(nil, r.SnapshotID)
	}
	if sn == nil || r.Namespace != "" && sn.Namespace != r.Namespace {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "delete", `snapshot "`+r.SnapshotID+`"`, "snapshot not found"),
			"list them with: berth volume snapshot list -plugin "+string(r.Plugin))
	}
	if text := holders.OfSnapshot(s, sn); text != "" {
		return nil, fault.New(fault.Busy, "delete", `snapshot "`+r.SnapshotID+`"`, text)
	}
	n := *sn
	n.Phase = volume.PhaseDeleting
	n.Executor, n.LastError = "", ""
	n.Tries, n.NextTry = 0, time.Time{}
	if _, err := volumes.PutSnapshot(ctx, e.cfg.Proposer, &n, nil); err != nil {
		return nil, err
	}
	return e.awaitGone(ctx, deletion{
		subject: `snapshot "` + sn.ExternalID + `"`,
		follow:  "berth volume snapshot list -plugin " + string(sn.Plugin),
		left: func(s *state.Snap, w *state.Watch) (there bool, refused string) {
			sn := s.VolumeSnapshot(w, sn.ID)
			if sn == nil {
				return false, ""
			}
			if why := s.Plugin(w, sn.Plugin).Foreign(sn.Provider); why != "" || sn.Tries == 0 {
				return true, why
			}
			return true, sn.LastError
		},
	}, r.Wait)
}

// snapshotList shows a provider's snapshots; what the cluster itself recorded fills in the source's name.
func (e *Endpoints) snapshotList(
	ctx context.Context, r *wire.SnapshotListRequest,
) (*wire.ProviderList[*volume.Snapshot], error) {
	s := e.cfg.Store.Snapshot()
	if rec := s.Plugin(nil, r.Plugin); rec != nil && !rec.Controller.ListSnapshots {
		out := &wire.ProviderList[*volume.Snapshot]{}
		for sn := range s.VolumeSnapshots(nil) {
			if sn.Plugin == r.Plugin && sn.ExternalID != "" {
				out.Items = append(out.Items, sn)
			}
		}
		return out, nil
	}
	out := &wire.ProviderList[*volume.Snapshot]{}
	page := func(n ids.Node, c wire.Conn, token string) (string, error) {
		page, err := wire.AgentListSnapshots.Call(ctx, c, &wire.PluginReadRequest{
			Node:      n,
			Plugin:    r.Plugin,
			PerPage:   r.PerPage,
			NextToken: token,
			Secrets:   r.Secrets,
		})
		if err != nil {
			return "", err
		}
		for _, sn := range page.Items {
			for own := range s.VolumeSnapshotsByExternalID(nil, r.Plugin, sn.ExternalID) {
				sn.ID = own.ID
				sn.Name = own.Name
				sn.Namespace = own.Namespace
				sn.Source, sn.Phase = own.Source, own.Phase
			}
			out.Items = append(out.Items, sn)
		}
		return page.NextToken, nil
	}
	var err error
	out.NextToken, out.Incomplete, err = e.askProvider(r.Plugin, r.NextToken, page)
	return out, err
}

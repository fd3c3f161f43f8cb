package storage

import (
	"context"
	"fmt"
	"maps"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/validate"
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
	case len(r.Name) > maxSnapshotName:
		return nil, fault.New(fault.Invalid, "snapshot", subject,
			fmt.Sprintf("the name has %d bytes, the limit is %d", len(r.Name), maxSnapshotName))
	}
	rec := s.Plugin(nil, v.Spec.Plugin)
	if err := validate.May(v, validate.Snapshot, rec.Foreign(v.Status.Provider)); err != nil {
		return nil, err
	}
	if rec == nil || !rec.Controller.CreateSnapshot {
		return nil, fault.New(fault.Conflict, "snapshot", subject,
			fmt.Sprintf("plugin %q does not support snapshots", v.Spec.Plugin))
	}
	id := snapshotID(v, r.Name)
	switch old := s.VolumeSnapshot(nil, id); {
	case old == nil:
	case old.Phase == volume.PhaseFailed && !r.Following: // nobody waited for that answer
		if err := volumes.ForgetSnapshot(ctx, e.cfg.Proposer, id); err != nil {
			return nil, err
		}
	default:
		return e.snapshotAgain(ctx, old, r)
	}
	name := r.Name
	if name == "" {
		name = string(v.ID.ID)
	}
	sn := &volume.Snapshot{
		ID:               id,
		Name:             volume.SnapshotName(name, id),
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
		old := e.cfg.Store.Snapshot().VolumeSnapshot(nil, id)
		if fault.Has(err, fault.Conflict) && old != nil { // the same request has come twice at once
			return e.snapshotAgain(ctx, old, r)
		}
		return nil, err
	}
	return e.awaitSnapshot(ctx, id, r.Wait)
}

// snapshotID is the id of a volume's snapshot of a name: the same again is the same snapshot, so that a request may be
// repeated whose answer was lost. Without a name each request is another one.
func snapshotID(v *volume.Volume, name string) string {
	if name == "" || v.UID == "" {
		return ids.New()
	}
	return volume.SnapshotID(v.UID, name)
}

// snapshotAgain is a request for a snapshot that is there, or being made: it gets that one, with a warning.
func (e *Endpoints) snapshotAgain(
	ctx context.Context, old *volume.Snapshot, r *wire.SnapshotCreateRequest,
) (*wire.SnapshotReply, error) {
	subject := fmt.Sprintf("volume %q", r.Volume.String())
	switch {
	case old.Phase == volume.PhaseDeleting:
		return nil, fault.WithHint(fault.New(fault.Busy, "snapshot", subject,
			fmt.Sprintf("its snapshot of the name %q is being deleted", r.Name)), "wait for that, or give another name")
	case !maps.Equal(old.Parameters, r.Parameters):
		return nil, fault.WithHint(fault.New(fault.Conflict, "snapshot", subject,
			fmt.Sprintf("it has a snapshot of the name %q, with other parameters", r.Name)), "give another name")
	case old.Suspended: // asked for again
		n := *old
		n.Suspended = false
		if _, err := volumes.PutSnapshot(ctx, e.cfg.Proposer, &n, nil); err != nil {
			return nil, err
		}
	case !r.Following && old.Rests():
		n := *old
		n.NextTry = time.Time{}
		_, err := volumes.PutSnapshot(ctx, e.cfg.Proposer, &n, nil)
		if err != nil && !fault.Has(err, fault.Conflict) { // then it is at it already
			return nil, err
		}
	}
	existed := old.Phase == volume.PhaseReady
	reply, err := e.awaitSnapshot(ctx, old.ID, r.Wait)
	if reply != nil && existed {
		reply.Outcome = "unchanged"
		cut := time.Unix(0, old.CreateTime).UTC().Format(time.RFC3339)
		reply.Warnings = []string{fmt.Sprintf("volume %q has a snapshot of the name %q already, cut at %s: "+
			"no other was made; give another name, or none, to have one of what it holds now", r.Volume.ID, r.Name,
			cut)}
	}
	return reply, err
}

// awaitSnapshot follows a snapshot until it is ready to use, or until the provider refused it.
func (e *Endpoints) awaitSnapshot(ctx context.Context, id string, wait time.Duration) (*wire.SnapshotReply, error) {
	wctx, cancel := patience(ctx, wait)
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
		case sn.HiddenID != "":
			return nil, fault.New(fault.Conflict, "snapshot", `volume "`+string(sn.Source)+`"`,
				sn.LastError+"; it is deleted at the provider")
		case sn.Phase == volume.PhaseReady:
			return &wire.SnapshotReply{Index: max(s.Index(), 1), Snapshot: sn, Outcome: "created"}, nil
		}
		if w.Wait(wctx) != nil {
			waits := e.snapshotWaits(s, sn)
			follow := "berth volume snapshot list -plugin " + string(sn.Plugin)
			if err := unfinished(ctx, "snapshot", `volume "`+string(sn.Source)+`"`, waits, follow, wait); err != nil {
				return nil, err
			}
			out := &wire.SnapshotReply{Index: max(s.Index(), 1), Snapshot: sn, Outcome: wire.Accepted}
			out.Waits = waits
			return out, nil
		}
	}
}

// snapshotWaits says what the making or deleting of a snapshot waits for.
func (e *Endpoints) snapshotWaits(s *state.Snap, sn *volume.Snapshot) string {
	text := "the provider is at it, or at an earlier call of its volume"
	if sn.Presence == volume.Present && sn.Phase == volume.PhaseCreating {
		text = "it was cut, and the provider makes it ready to use"
	}
	executor, why := e.cfg.Controllers.Executor(s, sn.Plugin, sn.HomeNode)
	if foreign := s.Plugin(nil, sn.Plugin).Foreign(sn.Provider); foreign != "" {
		executor, why = "", foreign
	}
	if executor == "" {
		text = why
	}
	return text + volume.DescribeTry(sn.LastError, sn.Tries, sn.NextTry)
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
	if sn == nil {
		var err error
		if sn, err = e.unknownSnapshot(ctx, s, r); err != nil {
			return nil, err
		}
	}
	if r.Namespace != "" && sn.Namespace != r.Namespace {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "delete", `snapshot "`+r.SnapshotID+`"`, "snapshot not found"),
			"list them with: berth volume snapshot list -plugin "+string(r.Plugin))
	}
	if text := holders.OfSnapshot(s, sn); text != "" {
		return nil, fault.New(fault.Busy, "delete", `snapshot "`+r.SnapshotID+`"`, text)
	}
	if why := s.Plugin(nil, sn.Plugin).Foreign(sn.Provider); why != "" && sn.Phase != volume.PhaseDeleting {
		return nil, fault.New(fault.NotReady, "delete", `snapshot "`+r.SnapshotID+`"`, why)
	}
	n := *sn
	n.Phase, n.Suspended = volume.PhaseDeleting, false
	n.Executor, n.LastError = "", ""
	n.Tries, n.NextTry = 0, time.Time{}
	if _, err := volumes.PutSnapshot(ctx, e.cfg.Proposer, &n, nil); err != nil {
		return nil, err
	}
	return e.awaitGone(ctx, deletion{
		waits:   func(s *state.Snap) string { return e.snapshotWaits(s, sn) },
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
			if sn.Plugin == r.Plugin && sn.ExternalID != "" && seesSnapshot(ctx, s, r.Plugin, sn) {
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
			if !seesSnapshot(ctx, s, r.Plugin, sn) {
				continue
			}
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

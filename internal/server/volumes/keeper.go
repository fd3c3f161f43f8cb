// Package volumes owns volumes and snapshots on the servers: it stores what users ask for as durable intents, has
// controller plugins create, expand, snapshot and delete, and never asks a provider to destroy what is in use. Claims
// and attachments belong to server/claims.
package volumes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/provision"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// Time-outs of controller calls (docs/STORAGE.md#calls).
const (
	createTimeout     = 10 * time.Minute
	controllerTimeout = 5 * time.Minute
)

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Dispatch *controllers.Dispatcher
	Secrets  controllers.Secrets
	Nodes    controllers.Nodes
	Log      *slog.Logger
	// ListPeriod is how often what a provider lists is held against the records; 0 is ten minutes.
	ListPeriod time.Duration
	// AlphaGetVolume has plugins that list no volumes asked about each (CSI spec, ControllerGetVolume: alpha).
	AlphaGetVolume bool
}

// Keeper brings volumes and snapshots to what was asked. Run it on the leader.
type Keeper struct {
	cfg      Config
	verifier controllers.Verifier
	grows    growth
	vols     *reconcile.Loop[volume.ID]
	rests    controllers.Rests[string] // of volumes by namespace and id, of snapshots by record id
	snaps    *reconcile.Loop[string]
	// openVols and openSnaps have something to do.
	openVols  controllers.Open[volume.ID]
	openSnaps controllers.Open[string]
	lists     lists
	listing   *reconcile.Loop[ids.Plugin]
}

// parallel is how many volumes of one plugin may wait for a call at once. How many calls a node makes at once it says
// itself, and the plugin's job (package controllers).
const parallel = 2 * job.MaxCallsAtOnce

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{
		cfg:      cfg,
		verifier: controllers.Verifier{Store: cfg.Store, Nodes: cfg.Nodes},
	}
	k.vols = reconcile.New(reconcile.Config{Name: "volumes", Parallel: parallel, Log: cfg.Log}, k.stepVolume).
		GroupBy(func(id volume.ID) string {
			if v := cfg.Store.Snapshot().Volume(nil, id); v != nil {
				return string(v.Spec.Plugin)
			}
			return ""
		})
	k.snaps = reconcile.New(reconcile.Config{Name: "snapshots", Parallel: parallel, Log: cfg.Log}, k.stepSnapshot).
		GroupBy(func(id string) string {
			if sn := cfg.Store.Snapshot().VolumeSnapshot(nil, id); sn != nil {
				return string(sn.Plugin)
			}
			return ""
		})
	k.listing = reconcile.New(reconcile.Config{Name: "lists", Parallel: 4, Log: cfg.Log}, k.stepList)
	return k
}

// Run reconciles until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"volumes":   k.vols.Run,
		"snapshots": k.snaps.Run,
		"lists":     k.listing.Run,
		"watch":     k.watch,
		"nodes":     k.watchNodes,
		"providers": k.nameProviders,
	})
}

// watch marks every volume and snapshot with something to do when it is written.
func (k *Keeper) watch(ctx context.Context) error {
	var seen state.Cursor
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		news, known := s.News(w, &seen)
		if !known {
			k.markAll(s)
		}
		for n := range news {
			k.look(s, n)
		}
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// watchNodes marks everything that has something to do at each change of what it may wait for.
func (k *Keeper) watchNodes(ctx context.Context) error {
	for {
		w := state.NewWatch()
		w.Add(k.cfg.Dispatch.Changed())
		s := k.cfg.Store.Snapshot()
		for range s.Nodes(w, "") {
			break
		}
		for range s.Jobs(w, wire.AllNamespaces, "") { // they say where the volumes that they bring may be made
			break
		}
		for p := range s.Plugins(w, "") {
			if !k.lists.known(p.ID, k.pause()) {
				k.listing.Mark(p.ID)
			}
		}
		suspension.Watch(s, w)
		k.openVols.Each(k.vols.Mark)
		k.openSnaps.Each(k.snaps.Mark)
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

func (k *Keeper) markAll(s *state.Snap) {
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		k.look(s, state.News{Volume: v.ID})
	}
	for sn := range s.VolumeSnapshots(nil) {
		k.look(s, state.News{Snapshot: sn.ID})
	}
}

// look marks what was written if it has something to do.
func (k *Keeper) look(s *state.Snap, n state.News) {
	if v := s.Volume(nil, n.Volume); v != nil &&
		(volume.NextVolume(v) != volume.StepNone || v.Status.NodeExpandPending) {
		k.openVols.Put(n.Volume)
		k.vols.Mark(n.Volume)
	} else {
		k.openVols.Drop(n.Volume)
	}
	if sn := s.VolumeSnapshot(nil, n.Snapshot); sn != nil && !sn.Suspended &&
		(sn.Phase == volume.PhaseCreating || sn.Phase == volume.PhaseDeleting) {
		k.openSnaps.Put(n.Snapshot)
		k.snaps.Mark(n.Snapshot)
	} else {
		k.openSnaps.Drop(n.Snapshot)
	}
}

// reportPause is how soon a deletion that was begun looks again whether they have.
const reportPause = 200 * time.Millisecond

// stepVolume makes the next call of one volume.
func (k *Keeper) stepVolume(ctx context.Context, id volume.ID) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	v := s.Volume(nil, id)
	if v == nil {
		k.grows.forgetVolume(id)
		return reconcile.Done(), nil
	}
	step := volume.NextVolume(v)
	switch step {
	case volume.StepNone:
		return k.expandOnNodes(ctx, s, v), nil
	case volume.StepForget:
		_, err := Forget(ctx, k.cfg.Proposer, v)
		return reconcile.Done(), err
	}
	if pause := k.rests.Left(id.String(), v.Status.NextTry); pause > 0 {
		return reconcile.Again(pause, v.Status.LastError), nil
	}
	home, nowhere := k.home(s, v, step)
	if nowhere != "" {
		return reconcile.Again(time.Minute, nowhere), k.noteWait(ctx, v, nowhere)
	}
	executor, why := k.executor(s, v, home)
	if foreign := s.Plugin(nil, v.Spec.Plugin).Foreign(v.Status.Provider); foreign != "" {
		executor, why = "", foreign
	}
	if held := suspension.Call(s, v.Staging(), step == volume.StepDelete); held != nil {
		executor, why = "", held.String()
	}
	if executor == "" {
		return reconcile.Again(time.Minute, why), nil
	}
	if n := holders.Unreported(s, nil); n != nil && step == volume.StepDelete {
		return reconcile.Again(reportPause, "node "+ids.Short(n.ID)+" has not reported yet what it holds"), nil
	}
	release, err := k.lane(ctx, v)
	if err != nil {
		return reconcile.Done(), err
	}
	defer release()
	if why := k.cfg.Dispatch.Queue(k.cfg.Store.Snapshot(), v.Staging(), v.ID.String(), executor); why != "" {
		return reconcile.Again(time.Minute, why), nil
	}
	return reconcile.Done(), k.call(ctx, v.ID, step, executor)
}

// lane waits for the lane of the volume's controller calls. A volume whose external id is not known yet needs none: no
// call but its creation is about it, and the loop makes one at a time.
func (k *Keeper) lane(ctx context.Context, v *volume.Volume) (release func(), err error) {
	if v.Status.ExternalID == "" {
		return func() {}, nil
	}
	return k.cfg.Dispatch.Lane(ctx, v.Spec.Plugin, v.Status.ExternalID)
}

// home is the node that a volume is bound to; empty: none. A creation that was begun stays where it was begun for
// node-scoped plugins, because only that node can repeat it; a source fixes the node, and so do jobs that bring the
// volume. Where those may run on no node that could make it, that is what is waited for.
func (k *Keeper) home(s *state.Snap, v *volume.Volume, step volume.VolumeStep) (home ids.Node, nowhere string) {
	if step != volume.StepCreate || v.Status.Presence.Exists() {
		return v.Status.HomeNode, ""
	}
	if home := Place(s, v); home != "" {
		return home, ""
	}
	return provision.Site(s, v, k.cfg.Dispatch.Connected)
}

// noteWait stores what a volume waits for, for those who ask for it.
func (k *Keeper) noteWait(ctx context.Context, v *volume.Volume, why string) error {
	if v.Status.LastError == why {
		return nil
	}
	n := *v
	n.Status.LastError = why
	return k.put(ctx, &n)
}

// executor picks the node for a call of a volume with a home.
func (k *Keeper) executor(s *state.Snap, v *volume.Volume, home ids.Node) (ids.Node, string) {
	if why := k.cfg.Dispatch.Busy(s, v.Status.Executor, createTimeout); why != "" {
		return "", why
	}
	return k.cfg.Dispatch.Executor(s, v.Spec.Plugin, home)
}

// ProviderName is the name sent to the plugin: unique per cluster and registration, so that two clusters on one
// backend, or two namespaces, never meet, and a lost answer is replayed under the same name.
func ProviderName(clusterID string, v *volume.Volume) string {
	name := v.Name()
	h := sha256.Sum256([]byte(clusterID + "\x00" + v.UID))
	tail := "-" + hex.EncodeToString(h[:4])
	if len(name) > 128-len(tail) {
		name = name[:128-len(tail)]
	}
	return name + tail
}

// call commits the intent, makes the call and stores what it came to.
func (k *Keeper) call(ctx context.Context, id volume.ID, step volume.VolumeStep, executor ids.Node) error {
	s := k.cfg.Store.Snapshot()
	cur := s.Volume(nil, id)
	deletes := step == volume.StepDelete
	if cur == nil || volume.NextVolume(cur) != step || suspension.Call(s, cur.Staging(), deletes) != nil ||
		s.Plugin(nil, cur.Spec.Plugin).Foreign(cur.Status.Provider) != "" {
		return nil // it has changed while the lane was waited for, and is decided anew
	}
	v := begun(cur)
	if deletes {
		if err := k.deletable(s, cur); err != nil {
			return k.failed(ctx, &v, failure{cause: err, before: v.Status.Presence, certain: true, reported: true})
		}
	}
	before, settled := v.Status.Presence, v.Status.ExpandSettled
	// What is being expanded is there: its record alone says whether its node may be making the call.
	underWay := v.Status.Presence == volume.Uncertain || step == volume.StepExpand
	if v.Status.Executor != executor || !underWay || v.Status.ExpandSettled {
		if v.Status.Tries == 0 || !underWay {
			v.Status.Generation++ // a repetition keeps its number
		}
		v.Status.Executor = executor
		v.Status.ExpandSettled = false
		if step != volume.StepExpand {
			v.Status.Presence = volume.Uncertain
		}
		if rec := s.Plugin(nil, v.Spec.Plugin); rec != nil && rec.Scope == plugin.ScopeNode {
			v.Status.HomeNode = executor
		}
		if err := k.put(ctx, &v); err != nil {
			return err
		}
	}
	w, err := k.callFor(s, &v, step)
	if err != nil {
		return k.failed(ctx, &v, failure{
			cause:    err,
			before:   before,
			certain:  true,
			final:    true,
			reported: true,
		})
	}
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		// Unavailable: the call never left this server. Anything else: the call may have been made.
		unsent := fault.Has(err, fault.Unavailable)
		return k.failed(ctx, &v,
			failure{
				cause:    err,
				before:   before,
				certain:  unsent,
				unsent:   unsent,
				settled:  settled,
				reported: unsent,
			})
	}
	uncertain, err := controllers.Failure(report)
	if step == volume.StepDelete && controllers.NeedsVerification(report) {
		against := k.verifier.Deleted(ctx, &v, executor)
		if against == nil {
			return k.done(ctx, &v, step, report)
		}
		err = controllers.Unverified(err, against)
	}
	if err != nil && !madeHidden(report) {
		// What a new volume is to be made from does not come into being by itself.
		noSource := step == volume.StepCreate && fault.Has(err, fault.NotFound)
		final := !uncertain && (noSource || permanent(report.Err.Retry, step == volume.StepCreate))
		return k.failed(ctx, &v, failure{
			cause:    err,
			before:   before,
			certain:  !uncertain,
			final:    final,
			reported: true,
		})
	}
	return k.done(ctx, &v, step, report)
}

// begun is a volume for which a call is made: what was waited for before the first is over.
func begun(cur *volume.Volume) volume.Volume {
	v := *cur
	if v.Status.Tries == 0 {
		v.Status.LastError = ""
	}
	return v
}

func (k *Keeper) put(ctx context.Context, v *volume.Volume) error {
	stored, err := Put(ctx, k.cfg.Proposer, v, v.ModifyIndex, nil)
	if err != nil {
		return err
	}
	*v = *stored
	return nil
}

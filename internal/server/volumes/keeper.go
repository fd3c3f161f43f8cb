// Package volumes owns volumes and snapshots on the servers: it stores what users ask for as durable intents, has
// controller plugins create, expand, snapshot and delete, and never asks a provider to destroy what is in use. Claims and
// attachments belong to server/claims.
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
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/redact"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/claims"
	"berth/internal/server/dispatch"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Time-outs of controller calls (STORAGE.md, decisions).
const (
	createTimeout     = 10 * time.Minute
	controllerTimeout = 5 * time.Minute
)

// SecretStore seals and opens named secrets; server/keyring implements it over the state.
type SecretStore interface {
	claims.Secrets
	// Seal encrypts values for storing under a name.
	Seal(name string, values redact.Map) ([]byte, error)
}

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Dispatch *dispatch.Dispatcher
	Secrets  SecretStore
	// NodeConn returns the connection on which a node answers reads, or fault.Unavailable.
	NodeConn func(ids.Node) (wire.Conn, error)
	Log      *slog.Logger
}

// Keeper brings volumes and snapshots to what was asked. Run it on the leader; its handlers are served always.
type Keeper struct {
	cfg   Config
	vols  *reconcile.Loop[volume.ID]
	snaps *reconcile.Loop[string]
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.vols = reconcile.New(reconcile.Config{Name: "volumes", Parallel: 64, Log: cfg.Log}, k.work)
	k.snaps = reconcile.New(reconcile.Config{Name: "snapshots", Parallel: 16, Log: cfg.Log}, k.workSnapshot)
	return k
}

// Run reconciles until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"volumes":   k.vols.Run,
		"snapshots": k.snaps.Run,
		"watch":     k.watch,
	})
}

// watch marks every volume and snapshot with something to do, again at each change of what it may wait for.
func (k *Keeper) watch(ctx context.Context) error {
	for {
		w := state.NewWatch()
		w.Add(k.cfg.Dispatch.Changed())
		s := k.cfg.Store.Snapshot()
		for v := range s.Volumes(w, wire.AllNamespaces, "") {
			if volume.NextVolume(v) != volume.StepNone || v.Status.NodeExpandPending {
				k.vols.Mark(v.ID)
			}
		}
		for sn := range s.VolumeSnapshots(w) {
			if sn.Phase == volume.PhaseCreating || sn.Phase == volume.PhaseDeleting {
				k.snaps.Mark(sn.ID)
			}
		}
		for range s.Nodes(w, "") {
			break
		}
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// work makes the next call of one volume.
func (k *Keeper) work(ctx context.Context, id volume.ID) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	v := s.Volume(nil, id)
	if v == nil {
		return reconcile.Done(), nil
	}
	step := volume.NextVolume(v)
	switch step {
	case volume.StepNone:
		return reconcile.Done(), k.expandOnNodes(ctx, s, v)
	case volume.StepForget:
		_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumeForget{ID: id, Seen: v.ModifyIndex})
		return reconcile.Done(), err
	}
	if pause := time.Until(v.Status.NextTry); pause > 0 {
		return reconcile.Again(pause, v.Status.LastError), nil
	}
	executor, why := k.executor(s, v, step)
	if executor == "" {
		return reconcile.Again(time.Minute, why), nil
	}
	release, err := k.cfg.Dispatch.Lane(ctx, k.lane(v))
	if err != nil {
		return reconcile.Done(), claims.Ending(ctx, err)
	}
	defer release()
	return reconcile.Done(), k.call(ctx, v.ID, step, executor)
}

// lane names the queue of all controller calls of the volume; before its id is known its own name serves.
func (k *Keeper) lane(v *volume.Volume) string {
	if v.Status.ExternalID == "" {
		return claims.LaneOf(v.Spec.Plugin, "creating "+v.UID)
	}
	return claims.LaneOf(v.Spec.Plugin, v.Status.ExternalID)
}

// executor picks the node for a call. A creation that was begun stays where it was begun for node-scoped plugins, because
// only that node can repeat it; a source fixes the node.
func (k *Keeper) executor(s *state.Snap, v *volume.Volume, step volume.VolumeStep) (ids.Node, string) {
	if why := claims.Busy(s, k.cfg.Dispatch, v.Status.Executor); why != "" {
		return "", why
	}
	home := v.Status.HomeNode
	if home == "" && step == volume.StepCreate {
		home = k.place(s, v)
	}
	return claims.Executor(s, k.cfg.Dispatch, v.Spec.Plugin, home)
}

// place finds the node on which a node-scoped plugin must create: its source's node, or one whose topology satisfies what
// was required, preferring what was preferred. Empty: any node will do.
func (k *Keeper) place(s *state.Snap, v *volume.Volume) ids.Node {
	rec := s.Plugin(nil, v.Spec.Plugin)
	if rec == nil || rec.Scope != plugin.ScopeNode {
		return ""
	}
	if n := sourceHome(s, v); n != "" {
		return n
	}
	for _, want := range [][]plugin.Topology{v.Spec.TopologyPreferred, v.Spec.TopologyRequired} {
		for n := range s.Nodes(nil, "") {
			for _, i := range n.CSI {
				if i.Plugin == v.Spec.Plugin && i.Healthy() && i.Topology != nil && within(want, *i.Topology) {
					return n.ID
				}
			}
		}
	}
	return ""
}

func within(wants []plugin.Topology, t plugin.Topology) bool {
	for _, w := range wants {
		if w.Within(t) {
			return true
		}
	}
	return false
}

// sourceHome is the home node of what a volume is filled from.
func sourceHome(s *state.Snap, v *volume.Volume) ids.Node {
	if v.Spec.CloneID != "" {
		if src := sourceVolume(s, v); src != nil {
			return src.Status.HomeNode
		}
	}
	if v.Spec.SnapshotID != "" {
		for sn := range s.VolumeSnapshotsByExternalID(nil, v.Spec.Plugin, v.Spec.SnapshotID) {
			return sn.HomeNode
		}
	}
	return ""
}

// sourceVolume finds what clone_id names: a volume of the namespace, or one with this external id.
func sourceVolume(s *state.Snap, v *volume.Volume) *volume.Volume {
	if src := s.Volume(nil, volume.ID{Namespace: v.Namespace, ID: ids.Volume(v.Spec.CloneID)}); src != nil && src.Spec.Plugin == v.Spec.Plugin {
		return src
	}
	for src := range s.VolumesByExternalID(nil, v.Spec.Plugin, v.Spec.CloneID) {
		if src.Namespace == v.Namespace {
			return src
		}
	}
	return nil
}

// ProviderName is the name sent to the plugin: unique per cluster and registration, so that two clusters on one backend,
// or two namespaces, never meet, and a lost answer is replayed under the same name.
func ProviderName(clusterID string, v *volume.Volume) string {
	name := v.Spec.Name
	if name == "" {
		name = string(v.ID.ID)
	}
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
	if cur == nil || volume.NextVolume(cur) != step {
		return nil
	}
	v := *cur
	if step == volume.StepDelete {
		if err := inUse(s, "delete", id); err != nil {
			return k.failed(ctx, &v, failure{cause: err, before: v.Status.Presence, certain: true, reported: true})
		}
	}
	before := v.Status.Presence
	if v.Status.Executor != executor || v.Status.Presence != volume.Uncertain {
		if v.Status.Tries == 0 || v.Status.Presence != volume.Uncertain {
			v.Status.Generation++ // a repetition keeps its number
		}
		v.Status.Executor = executor
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
	w, err := k.workFor(s, &v, step)
	if err != nil {
		return k.failed(ctx, &v, failure{cause: err, before: before, certain: true, final: true, reported: true})
	}
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		// Unavailable: the work never left this server. Anything else: the call may have been made.
		unsent := fault.Has(err, fault.Unavailable)
		return k.failed(ctx, &v, failure{cause: err, before: before, certain: unsent, reported: unsent})
	}
	uncertain, err := dispatch.Failure(report)
	if step == volume.StepDelete && claims.Doubt(report) {
		wrong := k.verifier().Deleted(ctx, v.Spec.Plugin, v.Status.ExternalID, executor, v.Status.HomeNode)
		if wrong == nil {
			return k.done(ctx, &v, step, report)
		}
		err = claims.Unproven(err, wrong)
	}
	if err != nil {
		r := report.Err.Retry
		// What a new volume is to be made from does not come into being by itself.
		noSource := step == volume.StepCreate && fault.Has(err, fault.NotFound)
		final := !uncertain && (r == "never" || noSource || r == "other-place" && step == volume.StepCreate)
		return k.failed(ctx, &v, failure{cause: err, before: before, certain: !uncertain, final: final, reported: true})
	}
	return k.done(ctx, &v, step, report)
}

func (k *Keeper) verifier() claims.Verifier {
	return claims.Verifier{Store: k.cfg.Store, NodeConn: k.cfg.NodeConn}
}

func (k *Keeper) put(ctx context.Context, v *volume.Volume) error {
	stored, _, err := fsm.Propose[*volume.Volume](ctx, k.cfg.Proposer, &fsm.VolumePut{Volume: v, Seen: v.ModifyIndex})
	if err != nil {
		return err
	}
	*v = *stored
	return nil
}

// done stores the success of a step.
func (k *Keeper) done(ctx context.Context, v *volume.Volume, step volume.VolumeStep, r *wire.WorkReport) error {
	n := *v
	n.Status.LastError, n.Status.Tries, n.Status.NextTry = "", 0, time.Time{}
	n.Status.Executor = ""
	switch step {
	case volume.StepCreate:
		if r.Created == nil {
			err := fault.New(fault.Internal, "create volume", v.ID.String(), "the node reported success without a volume")
			return k.failed(ctx, v, failure{cause: err, before: v.Status.Presence, reported: true})
		}
		k.created(&n, r.Created)
	case volume.StepDelete:
		_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex})
		return err
	case volume.StepExpand:
		if r.Capacity > 0 {
			n.Status.Capacity = r.Capacity
		} else {
			n.Status.Capacity = max(n.Status.Capacity, n.Status.WantedMin)
		}
		n.Status.Phase, n.Status.WantedMin, n.Status.WantedMax = volume.PhaseReady, 0, 0
		n.Status.NodeExpandPending = r.NodeExpansion
	}
	return k.put(ctx, &n)
}

func (k *Keeper) created(n *volume.Volume, c *wire.CreatedVolume) {
	n.Status.ExternalID, n.Status.Capacity, n.Status.Context = c.ExternalID, c.Capacity, c.Context
	n.Status.Presence = volume.Present
	n.Status.Topologies = nil
	for _, t := range c.Topologies {
		n.Status.Topologies = append(n.Status.Topologies, plugin.Topology{Segments: t})
	}
	if n.Status.Phase == volume.PhaseCreating {
		n.Status.Phase = volume.PhaseReady
	}
}

// failure is an unsuccessful call with all that decides what it means.
type failure struct {
	cause   error
	before  volume.Presence // of the thing, before the intent
	certain bool            // this call did nothing
	final   bool            // and it never will, with these arguments
	// reported: the call has ended, or was never begun. Else its executor may be at it still.
	reported bool
}

// failed stores the error. A creation that was refused for good, and of which nothing can exist, is over: the user has
// the answer, and the name is free again. An expansion that was refused for good goes back to ready.
func (k *Keeper) failed(ctx context.Context, v *volume.Volume, f failure) error {
	n := *v
	n.Status.LastError = f.cause.Error()
	n.Status.Tries++
	n.Status.NextTry = time.Now().Add(claims.Backoff(n.Status.Tries)).UTC()
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
		n.Status.Phase, n.Status.WantedMin, n.Status.WantedMax = volume.PhaseReady, 0, 0
	case f.final:
		n.Status.NextTry = time.Now().Add(5 * time.Minute).UTC()
	}
	k.cfg.Log.Warn("a volume operation did not succeed", logkey.Volume, v.ID.String(), logkey.Plugin, v.Spec.Plugin, "phase", v.Status.Phase, logkey.Attempt, n.Status.Tries, logkey.Error, f.cause)
	return k.put(ctx, &n)
}

// expandOnNodes asks the nodes that have the volume staged to grow it there.
func (k *Keeper) expandOnNodes(ctx context.Context, s *state.Snap, v *volume.Volume) error {
	if !v.Status.NodeExpandPending {
		return nil
	}
	for i := range s.InventoryByVolume(nil, v.ID) {
		if !i.Entry.Staging.Exists() || !k.cfg.Dispatch.Connected(i.Node) {
			continue
		}
		w := &wire.Work{Kind: wire.WorkNodeExpand, Subject: v.ID.String() + "@" + string(i.Node), Generation: v.ModifyIndex,
			Plugin: v.Spec.Plugin, Timeout: controllerTimeout,
			Volume: &wire.VolumeWork{Volume: v.ID, ExternalID: v.Status.ExternalID, Min: v.Status.Capacity}}
		r, err := k.cfg.Dispatch.Do(ctx, i.Node, w)
		if err != nil {
			return err
		}
		if _, err := dispatch.Failure(r); err != nil && !fault.Has(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

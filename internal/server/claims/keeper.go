// Package claims owns what follows from claims on the servers: it attaches volumes to the nodes that hold claims,
// detaches them when nobody does, ends claims by the nodes' word, and gives nodes their mount permissions. The planner
// creates claims; nobody else ends them.
package claims

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/dispatch"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// controllerTimeout bounds ControllerPublish and ControllerUnpublish.
const controllerTimeout = 5 * time.Minute

// Secrets opens entries of the secret store; server/keyring implements it.
type Secrets interface {
	// Secrets returns the values of a named entry, empty for the empty name.
	Secrets(name string) (wire.Secrets, error)
}

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Dispatch *dispatch.Dispatcher
	Secrets  Secrets
	// Authenticate checks that a node is who it says.
	Authenticate func(wire.NodeIdentity) error
	Log          *slog.Logger
}

// Keeper reconciles attachments with claims. Run it on the leader only; its handlers are served always.
type Keeper struct {
	cfg  Config
	loop *reconcile.Loop[volume.ID]
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.loop = reconcile.New(reconcile.Config{Name: "attachments", Parallel: 128, Log: cfg.Log}, k.work)
	return k
}

// Run keeps attachments and plugin records in step with the state until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"attachments": k.loop.Run,
		"watch":       k.watch,
		"plugins":     k.learnPlugins,
	})
}

// watch marks the volumes whose facts may have changed. Only volumes with claims or attachments have facts.
func (k *Keeper) watch(ctx context.Context) error {
	for {
		w := state.NewWatch()
		w.Add(k.cfg.Dispatch.Changed())
		s := k.cfg.Store.Snapshot()
		seen := map[volume.ID]bool{}
		mark := func(id volume.ID) {
			if !seen[id] {
				seen[id] = true
				k.loop.Mark(id)
			}
		}
		for c := range s.Claims(w) {
			mark(c.Volume)
		}
		for a := range s.Attachments(w) {
			mark(a.Volume)
			for range s.InventoryByVolume(w, a.Volume) {
				break
			}
		}
		for range s.Plugins(w, "") {
			break
		}
		for range s.Nodes(w, "") {
			break
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

// work brings the attachments of one volume on by one call.
func (k *Keeper) work(ctx context.Context, id volume.ID) (reconcile.Result, error) {
	for ctx.Err() == nil {
		s := k.cfg.Store.Snapshot()
		f, rec := facts(s, id)
		step, wait := volume.NextAttachment(f)
		if step == nil {
			// What is waited for is in the state: its change marks the volume again.
			_ = wait
			return reconcile.Done(), nil
		}
		a := attachmentFor(s, id, rec, *step)
		if a == nil {
			return reconcile.Done(), nil
		}
		if pause := time.Until(a.NextTry); pause > 0 {
			return reconcile.Again(pause, a.LastError), nil
		}
		executor, why := Executor(s, k.cfg.Dispatch, a.Plugin, homeOf(s, id))
		if executor == "" {
			return reconcile.Again(time.Minute, why), nil
		}
		if err := k.call(ctx, s, a, *step, executor); err != nil {
			return reconcile.Done(), err
		}
	}
	return reconcile.Done(), nil
}

func homeOf(s *state.Snap, id volume.ID) ids.Node {
	if v := s.Volume(nil, id); v != nil {
		return v.Status.HomeNode
	}
	return ""
}

// facts reads what decides over a volume's attachments.
func facts(s *state.Snap, id volume.ID) (volume.AttachFacts, *plugin.Record) {
	f := volume.AttachFacts{OnNode: map[ids.Node]bool{}}
	for c := range s.ClaimsByVolume(nil, id) {
		f.Claims = append(f.Claims, c)
	}
	for a := range s.AttachmentsByVolume(nil, id) {
		f.Attachments = append(f.Attachments, a)
	}
	for i := range s.InventoryByVolume(nil, id) {
		if !i.Entry.Quiet() {
			f.OnNode[i.Node] = true
		}
	}
	v := s.Volume(nil, id)
	if v == nil {
		f.Known = true // nothing new is attached for a volume that is not there; what is attached goes
		return f, nil
	}
	f.SingleNode = v.Status.AccessMode.SingleNode()
	rec := s.Plugin(nil, v.Spec.Plugin)
	if rec != nil {
		f.Known, f.NeedsAttach = rec.Negotiated, rec.NeedsAttach
	}
	return f, rec
}

// attachmentFor returns the record that the step acts on: a copy of the stored one, or a new one with everything that
// its undo will need. nil: the facts for it are not there yet.
func attachmentFor(s *state.Snap, id volume.ID, rec *plugin.Record, step volume.AttachStep) *volume.Attachment {
	if old := s.Attachment(nil, volume.AttachmentKey{Volume: id, Node: step.Node}); old != nil {
		a := *old
		return &a
	}
	v, n := s.Volume(nil, id), s.Node(nil, step.Node)
	if v == nil || n == nil || rec == nil {
		return nil
	}
	a := &volume.Attachment{Volume: id, Node: step.Node, Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID,
		AccessMode: v.Status.AccessMode, AttachmentMode: v.Status.AttachmentMode, MountOptions: v.Status.MountOptions,
		VolumeContext: v.Status.Context, Secrets: v.Spec.Secrets,
		ReadOnly: v.Status.AccessMode.ReaderOnly() && rec.Controller.AttachReadOnly}
	for _, i := range n.CSI {
		if i.Plugin == v.Spec.Plugin && i.Role == plugin.RoleNode && i.StorageNode != "" {
			a.StorageNode = i.StorageNode
		}
	}
	if a.StorageNode == "" {
		return nil // the node's plugin has not said who it is; its registration marks the volume again
	}
	return a
}

// Executor picks the node that makes controller calls of a plugin: its home node for node-scoped plugins, else the first
// connected node with a ready controller instance. Without one it says what is waited for.
func Executor(s *state.Snap, d *dispatch.Dispatcher, id ids.Plugin, home ids.Node) (ids.Node, string) {
	why := `no controller of plugin "` + string(id) + `" is ready`
	for n := range s.Nodes(nil, "") {
		for _, i := range n.CSI {
			if i.Plugin != id || i.Role != plugin.RoleController || !i.Healthy() {
				continue
			}
			switch {
			case i.Scope == plugin.ScopeNode && home != "" && home != n.ID:
				why = "the volume lives on node " + ids.Short(home) + ", whose controller is not ready"
			case !d.Connected(n.ID):
				why = "node " + ids.Short(n.ID) + ", which runs the plugin's controller, is not connected"
			default:
				return n.ID, ""
			}
		}
	}
	return "", why
}

// call commits the intent, makes the call in the volume's lane and stores what it came to.
func (k *Keeper) call(ctx context.Context, s *state.Snap, a *volume.Attachment, step volume.AttachStep, executor ids.Node) error {
	release, err := k.cfg.Dispatch.Lane(ctx, LaneOf(a.Plugin, a.ExternalID))
	if err != nil {
		return nil //nolint:nilerr // the loop is ending
	}
	defer release()
	secrets, err := k.cfg.Secrets.Secrets(a.Secrets)
	if err != nil {
		return err
	}
	seen := a.ModifyIndex
	detach := step.Verb == volume.Detach
	if !detach || !a.Detaching {
		a.Generation++ // a new direction is a new call; a repetition keeps its number
	}
	a.Detaching, a.Executor, a.Presence = detach, executor, volume.Uncertain
	if a, seen, err = k.store(ctx, a, seen); err != nil {
		return err
	}
	w := workOf(a, secrets)
	report, err := k.cfg.Dispatch.Do(ctx, executor, w)
	if err != nil {
		return k.failed(ctx, a, seen, err)
	}
	if _, err := dispatch.Failure(report); err != nil {
		return k.failed(ctx, a, seen, err)
	}
	if detach {
		_, _, err = k.cfg.Proposer.Propose(ctx, &fsm.AttachmentForget{Key: a.Key(), Seen: seen})
		return err
	}
	n := *a
	n.Presence, n.PublishContext, n.Executor, n.LastError, n.Tries, n.NextTry = volume.Present, report.PublishContext, "", "", 0, time.Time{}
	_, _, err = k.store(ctx, &n, seen)
	return err
}

func (k *Keeper) store(ctx context.Context, a *volume.Attachment, seen uint64) (*volume.Attachment, uint64, error) {
	stored, _, err := fsm.Propose[*volume.Attachment](ctx, k.cfg.Proposer, &fsm.AttachmentPut{Attachment: a, Seen: seen})
	if err != nil {
		return a, seen, err
	}
	c := *stored
	return &c, stored.ModifyIndex, nil
}

// failed stores the error for people and the time of the next try. The attachment stays Uncertain: whatever the plugin
// said, an earlier try may have worked, and uncertain counts as attached.
func (k *Keeper) failed(ctx context.Context, a *volume.Attachment, seen uint64, cause error) error {
	n := *a
	n.LastError, n.Executor = cause.Error(), ""
	n.Tries++
	n.NextTry = time.Now().Add(Backoff(n.Tries)).UTC()
	if _, _, err := k.store(ctx, &n, seen); err != nil {
		return err
	}
	k.cfg.Log.Warn("an attachment did not succeed", logkey.Volume, a.Volume.String(), logkey.Node, a.Node, logkey.Attempt, n.Tries, logkey.NextTry, n.NextTry, logkey.Error, cause)
	return nil
}

// Backoff is the pause after a number of failures: 0.5 s doubling to 60 s.
func Backoff(tries int) time.Duration {
	d := 500 * time.Millisecond
	for range tries - 1 {
		if d >= 30*time.Second {
			return time.Minute
		}
		d *= 2
	}
	return d
}

// LaneOf names the lane in which all controller calls of a volume queue.
func LaneOf(id ids.Plugin, external string) string { return string(id) + "\x00" + external }

func workOf(a *volume.Attachment, secrets wire.Secrets) *wire.Work {
	w := &wire.Work{Kind: wire.WorkAttach, Subject: a.Volume.String() + "@" + string(a.Node), Generation: a.Generation,
		Plugin: a.Plugin, Timeout: controllerTimeout, Secrets: secrets,
		Attach: &wire.AttachWork{ExternalID: a.ExternalID, StorageNode: a.StorageNode, AccessMode: a.AccessMode,
			AttachmentMode: a.AttachmentMode, MountOptions: a.MountOptions, ReadOnly: a.ReadOnly, VolumeContext: a.VolumeContext}}
	if a.Detaching {
		w.Kind = wire.WorkDetach
	}
	return w
}

// learnPlugins keeps a record of what plugins said of themselves, for the time when none of their instances lives.
func (k *Keeper) learnPlugins(ctx context.Context) error {
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for n := range s.Nodes(w, "") {
			for _, i := range n.CSI {
				if err := k.learn(ctx, i); err != nil {
					k.cfg.Log.Error("what a plugin said of itself cannot be stored", logkey.Plugin, i.Plugin, logkey.Error, err)
				}
			}
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

func (k *Keeper) learn(ctx context.Context, i *plugin.Instance) error {
	if !i.Healthy() {
		return nil
	}
	next := &plugin.Record{ID: i.Plugin, Scope: plugin.ScopeCluster}
	old := k.cfg.Store.Snapshot().Plugin(nil, i.Plugin) // read anew: another instance may have just taught it
	if old != nil {
		c := *old
		next = &c
	}
	next.Provider, next.Version = i.Provider, i.Version
	next.Topology = i.Capabilities.Topology
	switch i.Role {
	case plugin.RoleController:
		next.Negotiated, next.Controller, next.NeedsAttach, next.Scope = true, i.Capabilities, i.Capabilities.Attach, i.Scope
	case plugin.RoleNode:
		next.NodeNegotiated, next.NodeCaps, next.NeedsStage = true, i.Capabilities, i.Capabilities.Stage
		if !i.Capabilities.ControllerService {
			next.Negotiated = true // a plugin without a controller service needs no attaching
		}
	}
	if old != nil && *old == *next {
		return nil
	}
	_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.PluginLearn{Record: next})
	return fault.Note(err, "learn plugin", string(i.Plugin))
}

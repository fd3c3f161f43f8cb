package claims

import (
	"context"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/dispatch"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// controllerTimeout bounds ControllerPublish and ControllerUnpublish.
const controllerTimeout = 5 * time.Minute

// work brings the attachments of one volume on by one call at a time.
func (k *Keeper) work(ctx context.Context, id volume.ID) (reconcile.Result, error) {
	for ctx.Err() == nil {
		todo, again := k.due(k.cfg.Store.Snapshot(), id)
		if todo == nil {
			return again, nil
		}
		release, err := k.cfg.Dispatch.Lane(ctx, LaneOf(todo.a.Plugin, todo.a.ExternalID))
		if err != nil {
			return reconcile.Done(), Ending(ctx, err)
		}
		// Whatever held the lane may have changed everything: decide anew.
		next, _ := k.due(k.cfg.Store.Snapshot(), id)
		if next != nil && next.a.Plugin == todo.a.Plugin && next.a.ExternalID == todo.a.ExternalID {
			err = k.call(ctx, next)
		}
		release()
		if err != nil {
			return reconcile.Done(), err
		}
	}
	return reconcile.Done(), nil
}

// turn is one call that is due: on a copy of the stored attachment, or on a new one.
type turn struct {
	a        *volume.Attachment
	detach   bool
	executor ids.Node
}

// due picks the first legal call whose pause is over and whose executor is there; without one, when to look again. What
// is waited for besides is in the state: its change marks the volume again.
func (k *Keeper) due(s *state.Snap, id volume.ID) (*turn, reconcile.Result) {
	f, rec := facts(s, id)
	steps, _ := volume.NextAttachments(f)
	again := reconcile.Done()
	shortest := time.Duration(0)
	for _, step := range steps {
		a := attachmentFor(s, id, rec, step)
		if a == nil {
			continue // the node's plugin has not said who it is; its registration marks the volume again
		}
		if pause := time.Until(a.NextTry); pause > 0 {
			if shortest == 0 || pause < shortest {
				shortest, again = pause, reconcile.Again(pause, a.LastError)
			}
			continue
		}
		executor, why := k.executor(s, a, homeOf(s, id))
		if executor == "" {
			if shortest == 0 {
				again = reconcile.Again(time.Minute, why)
			}
			continue
		}
		return &turn{a: a, detach: step.Verb == volume.Detach, executor: executor}, reconcile.Done()
	}
	return nil, again
}

// executor keeps a call whose end is unknown where it was begun: another node takes it over only when the first is down.
func (k *Keeper) executor(s *state.Snap, a *volume.Attachment, home ids.Node) (ids.Node, string) {
	if why := Busy(s, k.cfg.Dispatch, a.Executor); why != "" {
		return "", why
	}
	if a.Executor != "" && k.cfg.Dispatch.Connected(a.Executor) && runsController(s, a.Executor, a.Plugin) {
		return a.Executor, ""
	}
	return Executor(s, k.cfg.Dispatch, a.Plugin, home)
}

// Busy says why a call that was given to a node and not reported must not be given to another one yet; empty when it may.
func Busy(s *state.Snap, d *dispatch.Dispatcher, executor ids.Node) string {
	if executor == "" || d.Connected(executor) {
		return "" // connected anew: what it had under way was cancelled with its session
	}
	if n := s.Node(nil, executor); n == nil || n.Status == node.StatusDown {
		return ""
	}
	return "node " + ids.Short(executor) + " was making the call when its connection was lost; waiting until it is back or down"
}

func runsController(s *state.Snap, id ids.Node, p ids.Plugin) bool {
	n := s.Node(nil, id)
	return n != nil && slices.ContainsFunc(n.CSI, func(i *plugin.Instance) bool {
		return i.Plugin == p && i.Role == plugin.RoleController && i.Healthy()
	})
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

// call commits the intent, makes the call and stores what it came to. The caller holds the volume's lane.
func (k *Keeper) call(ctx context.Context, j *turn) error {
	a := j.a
	secrets, err := k.cfg.Secrets.Secrets(a.Secrets)
	if err != nil {
		return err
	}
	a.Detaching, a.Executor, a.Presence = j.detach, j.executor, volume.Uncertain
	if a, err = k.store(ctx, a); err != nil {
		return err
	}
	report, err := k.cfg.Dispatch.Do(ctx, j.executor, workOf(a, secrets))
	if err != nil {
		// Unavailable: the work never left this server. Else the node may be making the call: it stays the executor.
		return k.failed(ctx, a, err, "", fault.Has(err, fault.Unavailable))
	}
	_, err = dispatch.Failure(report)
	if j.detach && Doubt(report) {
		if wrong := k.verifier().Detached(ctx, a, j.executor, homeOf(k.cfg.Store.Snapshot(), a.Volume)); wrong != nil {
			err = Unproven(err, wrong)
		} else {
			err = nil
		}
	}
	if err != nil {
		return k.failed(ctx, a, err, report.Err.Retry, true)
	}
	if j.detach {
		_, _, err = k.cfg.Proposer.Propose(ctx, &fsm.AttachmentForget{Key: a.Key(), Seen: a.ModifyIndex})
		return err
	}
	a.Presence, a.PublishContext, a.Executor, a.LastError, a.Tries, a.NextTry = volume.Present, report.PublishContext, "", "", 0, time.Time{}
	_, err = k.store(ctx, a)
	return err
}

func (k *Keeper) verifier() Verifier { return Verifier{Store: k.cfg.Store, NodeConn: k.cfg.NodeConn} }

// store commits a copy and returns the stored state as another copy.
func (k *Keeper) store(ctx context.Context, a *volume.Attachment) (*volume.Attachment, error) {
	n := *a
	stored, _, err := fsm.Propose[*volume.Attachment](ctx, k.cfg.Proposer, &fsm.AttachmentPut{Attachment: &n, Seen: a.ModifyIndex})
	if err != nil {
		return a, err
	}
	c := *stored
	return &c, nil
}

// failed stores the error for people and the time of the next try. The attachment stays Uncertain: whatever the plugin
// said, an earlier try may have worked, and uncertain counts as attached.
func (k *Keeper) failed(ctx context.Context, a *volume.Attachment, cause error, retry string, ended bool) error {
	a.LastError = cause.Error()
	if ended {
		a.Executor = ""
	}
	a.Tries++
	pause := Backoff(a.Tries)
	switch retry {
	case "never":
		pause = neverAgain
	case "slow":
		pause = slowAgain
	case "after-undo":
		a.Detaching = true // attached in another way: detach first
	}
	a.NextTry = time.Now().Add(pause).UTC()
	k.cfg.Log.Warn("an attachment did not succeed", logkey.Volume, a.Volume.String(), logkey.Node, a.Node, logkey.Attempt, a.Tries, logkey.NextTry, a.NextTry, logkey.Error, cause)
	_, err := k.store(ctx, a)
	return err
}

// Pauses after answers that time alone does not mend.
const (
	slowAgain  = 5 * time.Minute
	neverAgain = time.Hour
)

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

// Ending drops the error of a wait that ended with its loop.
func Ending(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

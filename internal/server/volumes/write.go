package volumes

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/claims"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// defaultWait is how long a write waits for the provider when the caller named no time; the intent goes on after it.
const defaultWait = 2 * time.Minute

func (k *Keeper) create(ctx context.Context, r *wire.VolumeWriteRequest) (*wire.VolumeWriteReply, error) {
	if err := validate(r, false); err != nil {
		return nil, err
	}
	s := k.learned(ctx, r.Spec.Plugin)
	if old := s.Volume(nil, r.Volume); old != nil && old.Status.Phase != volume.PhaseFailed {
		return k.update(ctx, s, old, r)
	}
	if err := k.canCreate(s, r); err != nil {
		return nil, err
	}
	v := &volume.Volume{ID: r.Volume, UID: ids.New(), Spec: r.Spec}
	v.Spec.Secrets = ""
	v.Status = volume.Status{Phase: volume.PhaseCreating, Since: time.Now().UTC(), Presence: volume.Absent}
	if rec := s.Plugin(nil, r.Spec.Plugin); rec != nil {
		v.Status.Provider, v.Status.ProviderVersion = rec.Provider, rec.Version
	}
	if err := k.storeNew(ctx, s, v, r); err != nil {
		return nil, err
	}
	return k.await(ctx, r.Volume, r.Wait, "created", nil)
}

// canCreate refuses what the plugin cannot do, before anything is recorded. An unknown plugin is told apart from one that
// is not healthy right now.
func (k *Keeper) canCreate(s *state.Snap, r *wire.VolumeWriteRequest) error {
	rec, subject := s.Plugin(nil, r.Spec.Plugin), `volume "`+r.Volume.String()+`"`
	hint := "see which plugins there are with: berth plugin status"
	switch {
	case rec == nil && !instanceOf(s, r.Spec.Plugin):
		return fault.WithHint(fault.New(fault.Conflict, "create", subject, fmt.Sprintf("plugin %q is not known: no job runs it", r.Spec.Plugin)), hint)
	case rec == nil || !rec.Negotiated:
		return fault.WithHint(fault.New(fault.NotReady, "create", subject, fmt.Sprintf("plugin %q has not been healthy yet", r.Spec.Plugin)), hint)
	case !rec.Controller.ControllerService:
		return fault.New(fault.Conflict, "create", subject, "plugin has no controller")
	case !rec.Controller.CreateDelete:
		return fault.New(fault.Conflict, "create", subject, "plugin does not support creating volumes")
	case r.Spec.SnapshotID != "" && !rec.Controller.CreateSnapshot:
		return fault.New(fault.Conflict, "create", subject, "plugin does not support snapshots, so snapshot_id cannot be used")
	case r.Spec.CloneID != "" && !rec.Controller.Clone:
		return fault.New(fault.Conflict, "create", subject, "plugin does not support cloning, so clone_id cannot be used")
	}
	if r.Spec.CloneID != "" {
		probe := &volume.Volume{ID: r.Volume, Spec: r.Spec}
		if src := sourceVolume(s, probe); src == nil {
			return fault.New(fault.NotFound, "create", subject, fmt.Sprintf("the volume to clone, %q, is not known in this namespace for this plugin", r.Spec.CloneID))
		}
	}
	return nil
}

// learnWait bounds how long a write waits for the servers to hear what a plugin can do.
const learnWait = 2 * time.Second

// learned returns a state in which it is known what the plugin can do, if that is about to be known: a node reports a
// healthy instance a moment before the servers record its capabilities, and who saw the report must be able to go on.
func (k *Keeper) learned(ctx context.Context, id ids.Plugin) *state.Snap {
	wctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		if rec := s.Plugin(w, id); rec != nil && rec.Negotiated || !healthyInstance(s, w, id) || w.Wait(wctx) != nil {
			return s
		}
	}
}

func healthyInstance(s *state.Snap, w *state.Watch, id ids.Plugin) bool {
	for n := range s.Nodes(w, "") {
		if slices.ContainsFunc(n.CSI, func(i *plugin.Instance) bool { return i.Plugin == id && i.Healthy() }) {
			return true
		}
	}
	return false
}

func instanceOf(s *state.Snap, id ids.Plugin) bool {
	for n := range s.Nodes(nil, "") {
		if slices.ContainsFunc(n.CSI, func(i *plugin.Instance) bool { return i.Plugin == id }) {
			return true
		}
	}
	return false
}

// storeNew seals the secrets, then commits the record. A record in phase failed gives way.
func (k *Keeper) storeNew(ctx context.Context, s *state.Snap, v *volume.Volume, r *wire.VolumeWriteRequest) error {
	if err := k.sealSecrets(ctx, v, r.Secrets); err != nil {
		return err
	}
	var seen uint64
	if old := s.Volume(nil, v.ID); old != nil {
		seen = old.ModifyIndex
	}
	_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumePut{Volume: v, Seen: seen})
	return err
}

func (k *Keeper) sealSecrets(ctx context.Context, v *volume.Volume, secrets wire.Secrets) error {
	if len(secrets.Values) == 0 {
		return nil
	}
	name := "volume/" + v.UID
	data, err := k.cfg.Secrets.Seal(name, secrets.Open())
	if err != nil {
		return err
	}
	if _, _, err := k.cfg.Proposer.Propose(ctx, &fsm.SecretPut{Name: name, Data: data}); err != nil {
		return err
	}
	v.Spec.Secrets = name
	return nil
}

func (k *Keeper) register(ctx context.Context, r *wire.VolumeWriteRequest) (*wire.VolumeWriteReply, error) {
	if err := validate(r, true); err != nil {
		return nil, err
	}
	s := k.learned(ctx, r.Spec.Plugin)
	if old := s.Volume(nil, r.Volume); old != nil && old.Status.Phase != volume.PhaseFailed {
		return k.update(ctx, s, old, r)
	}
	rec := s.Plugin(nil, r.Spec.Plugin)
	if rec == nil || !rec.Negotiated {
		return nil, fault.WithHint(fault.New(fault.NotReady, "register", `volume "`+r.Volume.String()+`"`, fmt.Sprintf("plugin %q is not known or has not been healthy yet", r.Spec.Plugin)),
			"run the plugin's job first, then look at: berth plugin status")
	}
	v := &volume.Volume{ID: r.Volume, UID: ids.New(), Spec: r.Spec}
	v.Spec.Secrets, v.Spec.Registered = "", true
	v.Status = volume.Status{Phase: volume.PhaseReady, ExternalID: r.ExternalID, Context: r.Context, Presence: volume.Present,
		Topologies: r.Spec.TopologyRequired, Provider: rec.Provider, ProviderVersion: rec.Version, Since: time.Now().UTC()}
	warning, err := k.confirm(ctx, s, rec, v, r)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		v.Status.Warnings = []string{warning}
	}
	if err := k.storeNew(ctx, s, v, r); err != nil {
		return nil, err
	}
	return k.await(ctx, r.Volume, r.Wait, "registered", v.Status.Warnings)
}

// confirm has the plugin validate a volume that it did not create for us (CSI spec, ValidateVolumeCapabilities). A plugin
// without a controller cannot be asked.
func (k *Keeper) confirm(ctx context.Context, s *state.Snap, rec *plugin.Record, v *volume.Volume, r *wire.VolumeWriteRequest) (warning string, err error) {
	if !rec.Controller.ControllerService {
		return "", nil
	}
	home := ids.Node("")
	if rec.Scope == plugin.ScopeNode {
		home = k.place(s, v)
	}
	executor, why := claims.Executor(s, k.cfg.Dispatch, v.Spec.Plugin, home)
	if executor == "" {
		return "", fault.New(fault.NotReady, "register", `volume "`+v.ID.String()+`"`, why)
	}
	if rec.Scope == plugin.ScopeNode {
		v.Status.HomeNode = executor
	}
	conn, err := k.cfg.NodeConn(executor)
	if err != nil {
		return "", err
	}
	release, err := k.cfg.Dispatch.Lane(ctx, claims.LaneOf(v.Spec.Plugin, v.Status.ExternalID))
	if err != nil {
		return "", err
	}
	defer release()
	reply, err := wire.RunValidate.Call(ctx, conn, &wire.RunValidateRequest{Node: executor, Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID,
		Context: v.Status.Context, Parameters: v.Spec.Parameters, Capabilities: v.Spec.Capabilities, MountOptions: v.Spec.MountOptions, Secrets: r.Secrets})
	if err != nil {
		return "", fault.Note(err, "register", `volume "`+v.ID.String()+`"`)
	}
	return reply.Warning, nil
}

// update is a write to a volume that exists: the same again is unchanged; what may not change is refused by name.
func (k *Keeper) update(ctx context.Context, s *state.Snap, old *volume.Volume, r *wire.VolumeWriteRequest) (*wire.VolumeWriteReply, error) {
	if old.Status.Phase == volume.PhaseDeleting {
		return nil, fault.New(fault.Busy, "change", `volume "`+r.Volume.String()+`"`, "it is being deleted")
	}
	n, changed, err := merge(s, old, r)
	if err != nil {
		return nil, err
	}
	if len(r.Secrets.Values) > 0 {
		if err := k.sealSecrets(ctx, n, r.Secrets); err != nil {
			return nil, err
		}
	}
	if len(changed) == 0 && n.Spec.Secrets == old.Spec.Secrets {
		outcome := "unchanged"
		if old.Status.Phase == volume.PhaseCreating {
			outcome = "created"
		}
		return k.await(ctx, r.Volume, r.Wait, outcome, nil)
	}
	if _, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumePut{Volume: n, Seen: old.ModifyIndex}); err != nil {
		return nil, err
	}
	outcome := "updated"
	if n.Status.Phase == volume.PhaseExpanding {
		outcome = "expanded"
	}
	reply, err := k.await(ctx, r.Volume, r.Wait, outcome, nil)
	if reply != nil {
		reply.Changed = changed
	}
	return reply, err
}

// merge applies a request to a copy of the volume and names what differs. What the provider answered is never touched.
func merge(s *state.Snap, old *volume.Volume, r *wire.VolumeWriteRequest) (*volume.Volume, []string, error) {
	n := *old
	want := r.Spec
	var refused, changed []string
	fixed := func(name string, have, asked string) {
		if asked != "" && asked != have {
			refused = append(refused, fmt.Sprintf("volume %s cannot be updated (it is %q, %q was asked for)", name, have, asked))
		}
	}
	fixed("name", old.Spec.Name, want.Name)
	fixed("external ID", old.Status.ExternalID, r.ExternalID)
	fixed("plugin ID", string(old.Spec.Plugin), string(want.Plugin))
	fixed("clone ID", old.Spec.CloneID, want.CloneID)
	fixed("snapshot ID", old.Spec.SnapshotID, want.SnapshotID)
	if len(want.Parameters) > 0 && !maps.Equal(want.Parameters, old.Spec.Parameters) {
		refused = append(refused, "volume parameters cannot be updated")
	}
	inUse := claimed(s, old.ID)
	if !slices.Equal(want.Capabilities, old.Spec.Capabilities) {
		if inUse && !slices.Contains(want.Capabilities, volume.Capability{AccessMode: old.Status.AccessMode, AttachmentMode: old.Status.AttachmentMode}) {
			refused = append(refused, "volume requested capabilities update was not compatible with existing capability in use")
		}
		n.Spec.Capabilities, changed = want.Capabilities, append(changed, "capabilities")
	}
	if want.MountOptions != nil && !reflect.DeepEqual(want.MountOptions, old.Spec.MountOptions) {
		if inUse {
			refused = append(refused, "can not update mount options while volume is in use")
		}
		n.Spec.MountOptions, changed = want.MountOptions, append(changed, "mount_options")
	}
	if len(want.TopologyRequired) > 0 && !reflect.DeepEqual(want.TopologyRequired, old.Spec.TopologyRequired) {
		refused = append(refused, "volume topology request update was not compatible with existing topology")
	}
	if len(r.Context) > 0 && !maps.Equal(r.Context, old.Status.Context) && old.Spec.Registered {
		if inUse {
			refused = append(refused, "volume context cannot be updated while the volume is in use")
		}
		n.Status.Context, changed = r.Context, append(changed, "context")
	}
	if err := resize(&n, old, want.CapacityMin, want.CapacityMax, s.Plugin(nil, old.Spec.Plugin)); err != nil {
		refused = append(refused, err.Error())
	} else if n.Spec.CapacityMin != old.Spec.CapacityMin || n.Spec.CapacityMax != old.Spec.CapacityMax {
		changed = append(changed, "capacity")
	}
	if len(refused) > 0 {
		return nil, nil, &fault.Error{Kind: fault.Conflict, Op: "change", Subject: `volume "` + r.Volume.String() + `"`, Err: fmt.Errorf("%s", strings.Join(refused, ", "))}
	}
	return &n, changed, nil
}

// resize turns another capacity request into an expansion where the volume is smaller than asked.
func resize(n, old *volume.Volume, lo, hi int64, rec *plugin.Record) error {
	if lo == 0 && hi == 0 || lo == old.Spec.CapacityMin && hi == old.Spec.CapacityMax {
		return nil
	}
	switch cur := old.Status.Capacity; {
	case hi > 0 && hi < lo:
		return fmt.Errorf("max requested capacity (%d) less than or equal to min (%d)", hi, lo)
	case hi > 0 && hi < cur:
		return fmt.Errorf("max requested capacity (%d) less than or equal to current (%d): volumes cannot shrink", hi, cur)
	case lo <= cur:
		n.Spec.CapacityMin, n.Spec.CapacityMax = lo, hi
		return nil
	}
	if rec == nil || !rec.Controller.ControllerExpand {
		return fmt.Errorf("expand is not implemented by this controller plugin")
	}
	if old.Status.Phase != volume.PhaseReady {
		return fmt.Errorf("the volume is %s; try again when that has ended", old.Status.Phase)
	}
	if old.Status.AccessMode != "" && rec.Controller.ExpandOffline && !rec.Controller.ExpandOnline {
		return fmt.Errorf("unable to expand volume: the plugin expands only volumes that are not in use; stop the jobs that use it first")
	}
	n.Spec.CapacityMin, n.Spec.CapacityMax = lo, hi
	n.Status.Phase, n.Status.WantedMin, n.Status.WantedMax = volume.PhaseExpanding, lo, hi
	n.Status.Tries, n.Status.NextTry, n.Status.LastError, n.Status.Since = 0, time.Time{}, "", time.Now().UTC()
	n.Status.Generation++
	return nil
}

func (k *Keeper) expand(ctx context.Context, r *wire.VolumeExpandRequest) (*wire.VolumeWriteReply, error) {
	s := k.cfg.Store.Snapshot()
	old := s.Volume(nil, r.Volume)
	if old == nil {
		return nil, notFound("expand", r.Volume)
	}
	if cur := old.Status.Capacity; r.Min <= cur && r.Min > 0 {
		if r.Min == cur {
			return &wire.VolumeWriteReply{Volume: old, Outcome: "unchanged", Index: s.Index()}, nil
		}
		return nil, fault.New(fault.Conflict, "expand", `volume "`+r.Volume.String()+`"`, fmt.Sprintf("%d bytes are less than its %d bytes: volumes cannot shrink", r.Min, cur))
	}
	limit := r.Max
	if limit == 0 && old.Spec.CapacityMax >= r.Min {
		limit = old.Spec.CapacityMax // who names no limit keeps the one that stands
	}
	n := *old
	if err := resize(&n, old, r.Min, limit, s.Plugin(nil, old.Spec.Plugin)); err != nil {
		return nil, fault.Wrap(err, fault.Conflict, "expand", `volume "`+r.Volume.String()+`"`)
	}
	if _, _, err := k.cfg.Proposer.Propose(ctx, &fsm.VolumePut{Volume: &n, Seen: old.ModifyIndex}); err != nil {
		return nil, err
	}
	return k.await(ctx, r.Volume, r.Wait, "expanded", nil)
}

func claimed(s *state.Snap, id volume.ID) bool {
	for range s.ClaimsByVolume(nil, id) {
		return true
	}
	return false
}

func notFound(op string, id volume.ID) error {
	return fault.New(fault.NotFound, op, `volume "`+id.String()+`"`, "volume not found")
}

// await follows a volume until its intent has ended, well or for good, or the wait is over. The intent goes on in any case.
func (k *Keeper) await(ctx context.Context, id volume.ID, wait time.Duration, outcome string, warnings []string) (*wire.VolumeWriteReply, error) {
	if wait <= 0 {
		wait = defaultWait
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	expanding := outcome == "expanded"
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		v := s.Volume(w, id)
		switch {
		case v == nil:
			return nil, notFound("wait for", id)
		case v.Status.Phase == volume.PhaseFailed:
			_, _, ferr := k.cfg.Proposer.Propose(ctx, &fsm.VolumeForget{ID: id, Seen: v.ModifyIndex})
			return nil, joinQuiet(fault.New(fault.Conflict, "create", `volume "`+id.String()+`"`, v.Status.LastError), ferr)
		case v.Status.Phase == volume.PhaseConflict:
			return nil, fault.New(fault.Conflict, "create", `volume "`+id.String()+`"`, v.Status.LastError)
		case v.Status.Phase == volume.PhaseReady && expanding && v.Status.LastError != "":
			return nil, fault.New(fault.Conflict, "expand", `volume "`+id.String()+`"`, "unable to expand volume: "+v.Status.LastError)
		case v.Status.Phase == volume.PhaseReady:
			return &wire.VolumeWriteReply{Index: max(s.Index(), 1), Volume: v, Outcome: outcome, Warnings: warnings}, nil
		}
		if w.Wait(wctx) != nil {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return nil, fault.WithHint(fault.New(fault.Timeout, "wait for", `volume "`+id.String()+`"`,
				"it is not finished after "+wait.String()+"; "+strings.Join(volume.Describe(volume.Story{Volume: v}), "; ")),
				"the work goes on; follow it with: berth volume status "+string(id.ID))
		}
	}
}

// joinQuiet keeps the first error's identity; a failure to tidy up is told beside it.
func joinQuiet(err *fault.Error, tidy error) error {
	if tidy == nil || fault.Has(tidy, fault.Conflict) {
		return err
	}
	return fault.WithHint(err, "its record could not be removed: "+tidy.Error())
}

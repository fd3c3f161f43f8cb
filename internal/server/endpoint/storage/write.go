package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/views"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

func (e *Endpoints) volumeCreate(ctx context.Context, r *wire.VolumeWriteRequest) (*wire.VolumeWriteReply, error) {
	if err := validate.Volume(r, false); err != nil {
		return nil, err
	}
	s := volumes.Learned(ctx, e.cfg.Store, r.Spec.Plugin)
	if old := s.Volume(nil, r.Volume); old != nil && old.Status.Phase != volume.PhaseFailed {
		reply, err := e.volumeUpdate(ctx, s, old, r, validate.Create)
		if reply != nil {
			reply.Warnings = append(reply.Warnings, validate.Kept(old, r)...)
		}
		return reply, err
	}
	if err := validate.VolumeCreate(s, r); err != nil {
		return nil, err
	}
	v := &volume.Volume{ID: r.Volume, UID: ids.New(), Spec: r.Spec}
	v.Spec.Secrets = ""
	v.Status = volume.Status{Phase: volume.PhaseCreating, Since: time.Now().UTC(), Presence: volume.Absent}
	if rec := s.Plugin(nil, r.Spec.Plugin); rec != nil {
		v.Status.Provider, v.Status.ProviderVersion = rec.Provider, rec.Version
	}
	if err := e.storeNew(ctx, s, v, r); err != nil {
		return nil, err
	}
	return e.awaitVolume(ctx, r.Volume, r.Wait, "created", views.Namesakes(s, r.Volume))
}

// storeNew seals the secrets, then commits the record. A record in phase failed gives way.
func (e *Endpoints) storeNew(ctx context.Context, s *state.Snap, v *volume.Volume, r *wire.VolumeWriteRequest) error {
	secret, err := e.sealSecrets(v, r.Secrets)
	if err != nil {
		return err
	}
	var seen uint64
	if old := s.Volume(nil, v.ID); old != nil {
		seen = old.ModifyIndex
	}
	_, err = volumes.Put(ctx, e.cfg.Proposer, v, seen, secret)
	return err
}

// otherSecrets tells whether a request brings secrets that differ from what is stored. What cannot be read is replaced.
func (e *Endpoints) otherSecrets(v *volume.Volume, secrets wire.Secrets) bool {
	if len(secrets.Values) == 0 {
		return false
	}
	stored, err := e.cfg.Secrets.Secrets(v.Spec.Secrets)
	return err != nil || !maps.Equal(stored.Values, secrets.Values)
}

// sealSecrets names the secrets of a volume and seals them; without any the volume keeps those that it has.
func (e *Endpoints) sealSecrets(v *volume.Volume, secrets wire.Secrets) ([]byte, error) {
	if len(secrets.Values) == 0 {
		return nil, nil
	}
	v.Spec.Secrets = "volume/" + v.UID
	return e.cfg.Secrets.Seal(v.Spec.Secrets, secrets.Open())
}

func (e *Endpoints) volumeRegister(ctx context.Context, r *wire.VolumeWriteRequest) (*wire.VolumeWriteReply, error) {
	if err := validate.Volume(r, true); err != nil {
		return nil, err
	}
	s := volumes.Learned(ctx, e.cfg.Store, r.Spec.Plugin)
	rec := s.Plugin(nil, r.Spec.Plugin)
	if old := s.Volume(nil, r.Volume); old != nil && old.Status.Phase != volume.PhaseFailed {
		return e.registerAgain(ctx, s, rec, old, r)
	}
	if rec == nil || !rec.Negotiated {
		return nil, fault.WithHint(
			fault.New(fault.NotReady, "register", `volume "`+r.Volume.String()+`"`,
				fmt.Sprintf("plugin %q is not known or has not been healthy yet", r.Spec.Plugin)),
			"run the plugin's job first, then look at: berth plugin status")
	}
	v := &volume.Volume{ID: r.Volume, UID: ids.New(), Spec: r.Spec}
	v.Spec.Secrets, v.Spec.Registered = "", true
	v.Status = volume.Status{
		Phase:           volume.PhaseReady,
		ExternalID:      r.ExternalID,
		Context:         r.Context,
		Presence:        volume.Present,
		Topologies:      r.Spec.TopologyRequired,
		Provider:        rec.Provider,
		ProviderVersion: rec.Version,
		Since:           time.Now().UTC(),
	}
	warning, err := e.confirmVolume(ctx, s, rec, v, r)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		v.Status.Warnings = []string{warning}
	}
	v.Status.Capacity = e.listedCapacity(ctx, s, v)
	if err := e.storeNew(ctx, s, v, r); err != nil {
		return nil, err
	}
	return e.awaitVolume(ctx, r.Volume, r.Wait, "registered", v.Status.Warnings)
}

// update is a write to a volume that exists: the same again is unchanged; what may not change is refused by name.
func (e *Endpoints) volumeUpdate(
	ctx context.Context, s *state.Snap, old *volume.Volume, r *wire.VolumeWriteRequest, verb validate.Verb,
) (*wire.VolumeWriteReply, error) {
	if err := validate.May(old, verb, ""); err != nil {
		return nil, err
	}
	n, changed, err := validate.VolumeUpdate(s, old, r, verb)
	if err != nil {
		return nil, err
	}
	if slices.Contains(changed, "capacity") {
		if err := e.withinProvider(ctx, s, old, n.Spec.CapacityMin, string(verb)); err != nil {
			return nil, err
		}
	}
	var secret []byte
	if e.otherSecrets(old, r.Secrets) {
		changed = append(changed, "secrets")
		if secret, err = e.sealSecrets(n, r.Secrets); err != nil {
			return nil, err
		}
	}
	if old.Status.Suspended { // asked for again
		n.Status.Suspended = false
		if n, err = volumes.Put(ctx, e.cfg.Proposer, n, old.ModifyIndex, secret); err != nil {
			return nil, err
		}
		old, secret = n, nil
	} else if err := e.hasten(ctx, old, n, len(changed) == 0); err != nil {
		return nil, err
	}
	expansion := n.Status.Phase == volume.PhaseExpanding && n.Spec.CapacityMin == r.Spec.CapacityMin &&
		n.Spec.CapacityMin > n.Status.Capacity
	if len(changed) == 0 && expansion {
		return e.awaitExpansion(ctx, n, r.Wait)
	}
	if len(changed) == 0 {
		outcome := "unchanged"
		if old.Status.Phase == volume.PhaseCreating {
			outcome = "created"
		}
		return e.awaitVolume(ctx, r.Volume, r.Wait, outcome, nil)
	}
	if _, err := volumes.Put(ctx, e.cfg.Proposer, n, old.ModifyIndex, secret); err != nil {
		return nil, err
	}
	var reply *wire.VolumeWriteReply
	if slices.Contains(changed, "capacity") && (expansion || old.Status.Phase == volume.PhaseExpanding) {
		reply, err = e.awaitExpansion(ctx, n, r.Wait)
	} else {
		reply, err = e.awaitVolume(ctx, r.Volume, r.Wait, "updated", nil)
	}
	if reply != nil {
		reply.Changed = changed
	}
	return reply, err
}

// hasten begins the next try of what rests after a failed one: a user asks for it again. Where more of the volume is to
// be written, n is written with that.
func (e *Endpoints) hasten(ctx context.Context, old, n *volume.Volume, write bool) error {
	if !old.Rests() {
		return nil
	}
	n.Status.NextTry = time.Time{}
	if !write {
		return nil
	}
	_, err := volumes.Put(ctx, e.cfg.Proposer, n, old.ModifyIndex, nil)
	if fault.Has(err, fault.Conflict) { // then it is at it already
		return nil
	}
	return err
}

func notFound(op string, id volume.ID) error {
	return fault.New(fault.NotFound, op, `volume "`+id.String()+`"`, "volume not found")
}

// await follows a volume until its intent has ended, well or for good, or the wait is over. The intent goes on in any
// case.
func (e *Endpoints) awaitVolume(
	ctx context.Context, id volume.ID, wait time.Duration, outcome string, warnings []string,
) (*wire.VolumeWriteReply, error) {
	wctx, cancel := patience(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := e.cfg.Store.Snapshot()
		v := s.Volume(w, id)
		switch {
		case v == nil:
			return nil, notFound("create", id)
		case v.Status.Phase == volume.PhaseFailed:
			_, ferr := volumes.Forget(ctx, e.cfg.Proposer, v)
			return nil, joinQuiet(fault.New(fault.Conflict, "create", `volume "`+id.String()+`"`, v.Status.LastError),
				ferr)
		case v.Status.Phase == volume.PhaseConflict:
			return nil, fault.New(fault.Conflict, "create", `volume "`+id.String()+`"`, v.Status.LastError)
		case v.Status.Phase == volume.PhaseReady || v.Status.Phase == volume.PhaseExpanding:
			return &wire.VolumeWriteReply{Index: max(s.Index(), 1), Volume: v, Outcome: outcome, Warnings: warnings},
				nil
		}
		if err := ownProvider(s, w, v, "create"); err != nil {
			return nil, err
		}
		if w.Wait(wctx) != nil {
			return e.accepted(ctx, s, v, "create", wait)
		}
	}
}

// ownProvider refuses to wait for work that another provider than the volume's would have to do.
func ownProvider(s *state.Snap, w *state.Watch, v *volume.Volume, op string) error {
	why := s.Plugin(w, v.Spec.Plugin).Foreign(v.Status.Provider)
	if why == "" {
		return nil
	}
	return fault.WithHint(fault.New(fault.NotReady, op, `volume "`+v.ID.String()+`"`, why),
		"the work goes on then; follow it with: berth volume status "+v.ID.Typed())
}

// joinQuiet keeps the first error's identity; a failure to tidy up is named beside it.
func joinQuiet(err *fault.Error, tidy error) error {
	if tidy == nil || fault.Has(tidy, fault.Conflict) {
		return err
	}
	return fault.WithHint(err, "its record could not be removed: "+tidy.Error())
}

package storage

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// reportWait bounds how long a destructive call waits for nodes that are about to report: at a start of the servers
// that is a matter of milliseconds.
const reportWait = 5 * time.Second

// awaitReports waits until every node that is not down has said what it holds; who is late is named by holders.InUse.
func (e *Endpoints) awaitReports(ctx context.Context) error {
	wctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	for {
		w := state.NewWatch()
		if holders.Unreported(e.cfg.Store.Snapshot(), w) == nil || w.Wait(wctx) != nil {
			return ctx.Err()
		}
	}
}

func (e *Endpoints) volumeDelete(ctx context.Context, r *wire.VolumeDeleteRequest) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("delete", r.Volume)
	}
	if err := e.awaitReports(ctx); err != nil {
		return nil, err
	}
	if err := e.awaitFree(ctx, r.Volume, r.Wait); err != nil {
		return nil, err
	}
	for {
		s = e.cfg.Store.Snapshot()
		if v = s.Volume(nil, r.Volume); v == nil {
			return &wire.Written{Index: s.Index()}, nil
		}
		forgotten, err := e.beginDeletion(ctx, s, v, r)
		switch {
		case e.overtaken(err, v):
			continue // a step of what was under way came in between: its creation, say
		case err != nil || forgotten != nil:
			return forgotten, err
		}
		return e.awaitGone(ctx, e.deletionOf(r.Volume), r.Wait)
	}
}

// overtaken reports whether a write was refused because the volume is no longer as it was read. Who asks for something
// has read nothing: it is decided anew on what there is now.
func (e *Endpoints) overtaken(err error, seen *volume.Volume) bool {
	if !fault.Has(err, fault.Conflict) {
		return false
	}
	now := e.cfg.Store.Snapshot().Volume(nil, seen.ID)
	return now == nil || now.ModifyIndex != seen.ModifyIndex
}

// beginDeletion has a volume deleted that is as it was read. One that owns nothing at its provider is forgotten at
// once, at the index returned.
func (e *Endpoints) beginDeletion(
	ctx context.Context, s *state.Snap, v *volume.Volume, r *wire.VolumeDeleteRequest,
) (forgotten *wire.Written, err error) {
	foreign := s.Plugin(nil, v.Spec.Plugin).Foreign(v.Status.Provider)
	if err := validate.May(v, validate.Delete, foreign); err != nil {
		return nil, err
	}
	if v.OwnsNothing() {
		index, err := volumes.Forget(ctx, e.cfg.Proposer, v)
		if err != nil {
			return nil, err
		}
		return &wire.Written{Index: index}, nil
	}
	if rec := s.Plugin(nil, v.Spec.Plugin); rec != nil && rec.Negotiated && !rec.Controller.CreateDelete {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "delete", `volume "`+r.Volume.String()+`"`,
				"plugin does not support deleting volumes"), "forget it with: berth volume deregister "+
				r.Volume.Typed())
	}
	if v.Status.Phase == volume.PhaseDeleting && !v.Status.Suspended {
		return nil, nil
	}
	if v.Status.HiddenID != "" && e.otherSecrets(v, r.Secrets) {
		return nil, fault.WithHint(
			fault.New(fault.Conflict, "delete", `volume "`+r.Volume.String()+`"`,
				"its id at the provider holds secrets that it was made with: without them it is not known which it is"),
			"delete it without other secrets; or delete it at the provider, and forget it with: berth volume deregister "+
				r.Volume.Typed())
	}
	n := *v
	n.Status.Suspended = false
	secret, err := e.sealSecrets(&n, r.Secrets)
	if err != nil {
		return nil, err
	}
	n.Status.Phase, n.Status.Since = volume.PhaseDeleting, time.Now().UTC()
	n.Status.Tries = 0
	n.Status.NextTry = time.Time{}
	n.Status.LastError = ""
	_, err = volumes.Put(ctx, e.cfg.Proposer, &n, v.ModifyIndex, secret)
	return nil, err
}

// deletionOf is the deletion of a volume.
func (e *Endpoints) deletionOf(id volume.ID) deletion {
	return deletion{
		subject: `volume "` + id.String() + `"`,
		follow:  "berth volume status " + id.Typed(),
		waits: func(s *state.Snap) string {
			if v := s.Volume(nil, id); v != nil {
				return e.waitsFor(s, v)
			}
			return ""
		},
		left: func(s *state.Snap, w *state.Watch) (there bool, refused string) {
			v := s.Volume(w, id)
			if v == nil {
				return false, ""
			}
			if why := s.Plugin(w, v.Spec.Plugin).Foreign(v.Status.Provider); why != "" || v.Status.Tries == 0 {
				return true, why
			}
			return true, v.Status.LastError
		},
	}
}

// awaitFree waits, as long as the caller said, for a release that is under way; what will not pass by itself is refused
// at once.
func (e *Endpoints) awaitFree(ctx context.Context, id volume.ID, wait time.Duration) error {
	wctx, cancel := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer cancel()
	for {
		w := state.NewWatch()
		s := e.cfg.Store.Snapshot()
		v := s.Volume(w, id)
		if v == nil {
			return nil
		}
		err := holders.InUse(s, w, "delete", v)
		if err == nil || wait <= 0 || holders.ForGood(s, v) {
			return err
		}
		if w.Wait(wctx) != nil {
			return err
		}
	}
}

// deletion is one that was asked for: left tells whether the object is still there, and what the provider said when it
// refused; follow is the command that shows how it goes on.
type deletion struct {
	subject, follow string
	waits           func(*state.Snap) string
	left            func(*state.Snap, *state.Watch) (there bool, refused string)
}

// awaitGone follows a deletion to its end.
func (e *Endpoints) awaitGone(ctx context.Context, d deletion, wait time.Duration) (*wire.Written, error) {
	wctx, cancel := patience(ctx, wait)
	defer cancel()
	for {
		w := state.NewWatch()
		s := e.cfg.Store.Snapshot()
		there, refused := d.left(s, w)
		switch {
		case !there:
			return &wire.Written{Index: max(s.Index(), 1)}, nil
		case refused != "":
			return nil, fault.WithHint(fault.New(fault.Conflict, "delete", d.subject, refused),
				"it stays recorded as deleting and is tried again; follow it with: "+d.follow)
		case w.Wait(wctx) != nil:
			waits := d.waits(s)
			if err := unfinished(ctx, "delete", d.subject, waits, d.follow, wait); err != nil {
				return nil, err
			}
			return &wire.Written{Index: max(s.Index(), 1), Waits: waits}, nil
		}
	}
}

func (e *Endpoints) volumeDeregister(ctx context.Context, r *wire.VolumeDeleteRequest) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("deregister", r.Volume)
	}
	if err := e.awaitReports(ctx); err != nil {
		return nil, err
	}
	for {
		s = e.cfg.Store.Snapshot()
		if v = s.Volume(nil, r.Volume); v == nil {
			return &wire.Written{Index: s.Index()}, nil
		}
		index, err := e.forget(ctx, v, r)
		switch {
		case e.overtaken(err, v):
			continue // a step of what was under way came in between
		case err != nil:
			return nil, err
		}
		return &wire.Written{Index: index}, nil
	}
}

// forget removes the record of a volume that is as it was read, and tells the index at which it is gone.
func (e *Endpoints) forget(ctx context.Context, v *volume.Volume, r *wire.VolumeDeleteRequest) (uint64, error) {
	verb := validate.Deregister
	if r.Force {
		verb = validate.Forget
	}
	if err := validate.May(v, verb, ""); err != nil {
		return 0, err
	}
	if !r.Force {
		return volumes.Forget(ctx, e.cfg.Proposer, v)
	}
	index, err := volumes.Abandon(ctx, e.cfg.Proposer, v, r.Reason)
	if err == nil {
		e.cfg.Log.Warn("volume forgotten by force", "volume", v.ID.String(), "reason", r.Reason)
	}
	return index, err
}

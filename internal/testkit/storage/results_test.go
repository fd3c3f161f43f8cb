package storage

import (
	"context"
	"log/slog"
	"math"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// matter is what controller calls of a kind are about: a volume, a snapshot or an attachment.
type matter struct{ kind, subject string }

// call is one of them, with the number that the servers gave it.
type call struct {
	matter
	generation uint64
}

// result is the end of a call, as an agent start has reported it.
type result struct {
	at    time.Time
	m     *member
	start uint64
	ok    bool
}

// effects is what the results of calls have made true, when the servers' state was looked at last.
type effects struct {
	attachments map[string]*volume.Attachment // by what their calls are about, as all of these
	volumes     map[string]*volume.Volume
	snapshots   map[string]*volume.Snapshot
}

// agentLog is the log of one agent start. Its executor writes there how a call has ended, before it reports that.
type agentLog struct {
	slog.Handler
	w     *watch
	m     *member
	start uint64
	call  call
}

// WithAttrs implements slog.Handler.
func (l *agentLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *l
	n.Handler = l.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		switch a.Key {
		case logkey.Op:
			n.call.kind = a.Value.String()
		case logkey.Volume:
			n.call.subject = a.Value.String()
		case logkey.Generation:
			n.call.generation = a.Value.Uint64()
		}
	}
	return &n
}

// WithGroup implements slog.Handler.
func (l *agentLog) WithGroup(name string) slog.Handler {
	n := *l
	n.Handler = l.Handler.WithGroup(name)
	return &n
}

// Handle implements slog.Handler.
func (l *agentLog) Handle(ctx context.Context, r slog.Record) error {
	if l.call.generation > 0 {
		l.w.mu.Lock()
		of := l.w.results[l.call.matter]
		if of == nil {
			of = map[uint64]result{}
			l.w.results[l.call.matter] = of
		}
		if old := of[l.call.generation]; old.m != l.m || old.start <= l.start {
			of[l.call.generation] = result{at: r.Time, m: l.m, start: l.start, ok: r.Level < slog.LevelWarn}
		}
		l.w.mu.Unlock()
	}
	return l.Handler.Handle(ctx, r)
}

// apply notes which results the servers have acted on: what exists, has grown or is attached, and what is not any more.
// The caller holds the lock.
func (w *watch) apply(s *state.Snap) {
	was := w.effects
	w.effects = effects{
		attachments: map[string]*volume.Attachment{},
		volumes:     map[string]*volume.Volume{},
		snapshots:   map[string]*volume.Snapshot{},
	}
	for a := range s.Attachments(nil) {
		subject := controllers.SubjectOf(a)
		w.effects.attachments[subject] = a
		if a.Presence == volume.Present && !a.Detaching {
			w.credit(wire.CallAttach, subject, a.Generation, a.Generation)
		}
	}
	for v := range s.Volumes(nil, "", "") {
		w.effects.volumes[v.ID.String()] = v
		if v.Status.Phase == volume.PhaseReady {
			w.credit(wire.CallCreate, v.ID.String(), 0, v.Status.Generation)
			w.credit(wire.CallExpand, v.ID.String(), 0, v.Status.Generation)
		}
	}
	for sn := range s.VolumeSnapshots(nil) {
		w.effects.snapshots[controllers.SnapshotSubject(sn)] = sn
		if sn.Phase == volume.PhaseReady {
			w.credit(wire.CallSnapshot, controllers.SnapshotSubject(sn), 0, sn.Generation)
		}
	}
	for subject, a := range was.attachments {
		now := w.effects.attachments[subject]
		switch {
		case now == nil:
			w.credit(wire.CallDetach, subject, a.Generation, math.MaxUint64)
		case now.CreateIndex != a.CreateIndex && now.Generation > 0:
			w.credit(wire.CallDetach, subject, a.Generation, now.Generation-1)
		}
	}
	for subject, v := range was.volumes {
		if now := w.effects.volumes[subject]; now == nil || now.UID != v.UID {
			w.credit(wire.CallDelete, subject, v.Status.Generation, math.MaxUint64)
		}
	}
	for subject, sn := range was.snapshots {
		if w.effects.snapshots[subject] == nil {
			w.credit(wire.CallDeleteSnapshot, subject, sn.Generation, math.MaxUint64)
		}
	}
}

// credit notes that the newest call of a kind that ended well, of those whose numbers reach from one to the other, has
// taken effect. What came about by another word than a call's is credited to none.
func (w *watch) credit(kind, subject string, from, to uint64) {
	of := matter{kind, subject}
	newest, found := uint64(0), false
	for generation, r := range w.results[of] {
		if r.ok && generation >= max(from, newest) && generation <= to {
			newest, found = generation, true
		}
	}
	if found {
		w.applied[call{of, newest}] = true
	}
}

// acts are what took effect of the agents' words: their registrations, and the results of the calls that they made. A
// call that several starts have reported counts as the newest one's. The caller holds the lock.
func (w *watch) acts() []oracle.Obeyed {
	out := append([]oracle.Obeyed{}, w.obeyed...)
	for c := range w.applied {
		r := w.results[c.matter][c.generation]
		out = append(out, oracle.Obeyed{
			At:    r.at,
			Node:  string(r.m.client.ID()),
			Start: r.start,
			What:  "result of " + c.kind,
		})
	}
	return out
}

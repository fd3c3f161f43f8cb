package storage

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// call is a controller call about an attachment, which has a number of its own.
type call struct {
	kind, subject string
	generation    uint64
}

// result is the end of a call, as an agent start has reported it.
type result struct {
	at    time.Time
	m     *member
	start uint64
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
	if l.call.kind == wire.CallAttach || l.call.kind == wire.CallDetach {
		l.w.mu.Lock()
		if l.w.results[l.call].start <= l.start {
			l.w.results[l.call] = result{at: r.Time, m: l.m, start: l.start}
		}
		l.w.mu.Unlock()
	}
	return l.Handler.Handle(ctx, r)
}

// apply notes which results the servers have acted on: what is attached, and what is not any more. The caller holds the
// lock.
func (w *watch) apply(s *state.Snap) {
	before := w.attached
	w.attached = map[string]*volume.Attachment{}
	for a := range s.Attachments(nil) {
		subject := controllers.SubjectOf(a)
		w.attached[subject] = a
		if a.Presence == volume.Present && !a.Detaching {
			w.applied[call{kind: wire.CallAttach, subject: subject, generation: a.Generation}] = true
		}
	}
	for subject, was := range before {
		now := w.attached[subject]
		if now != nil && now.CreateIndex == was.CreateIndex {
			continue
		}
		var undone call // the newest of it
		for c := range w.results {
			if c.kind != wire.CallDetach || c.subject != subject || now != nil && c.generation >= now.Generation {
				continue
			}
			if c.generation >= max(was.Generation, undone.generation) {
				undone = c
			}
		}
		if undone.kind != "" {
			w.applied[undone] = true
		}
	}
}

// acts are what took effect of the agents' words: their registrations, and the results of the calls that they made. A
// call that several starts have reported counts as the newest one's. The caller holds the lock.
func (w *watch) acts() []oracle.Obeyed {
	out := append([]oracle.Obeyed{}, w.obeyed...)
	for c := range w.applied {
		r, reported := w.results[c]
		if !reported {
			continue // it came with a state that was followed later, or ended by another word
		}
		out = append(out, oracle.Obeyed{
			At:    r.at,
			Node:  string(r.m.client.ID()),
			Start: r.start,
			What:  "result of " + c.kind,
		})
	}
	return out
}

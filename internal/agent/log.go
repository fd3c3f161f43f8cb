package agent

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// logHub is the agent's log: it writes to the terminal or the service manager, and to whoever follows it.
type logHub struct {
	mu        sync.Mutex
	followers map[*follower]bool
}

type follower struct {
	level slog.Level
	lines chan []byte
	json  bool
}

// handler fans records out.
type handler struct {
	hub  *logHub
	base slog.Handler
	with func(slog.Handler) slog.Handler // attributes and groups added so far
}

func newLog(w *os.File, level slog.Level, json bool) (*slog.Logger, *logHub) {
	hub := &logHub{followers: map[*follower]bool{}}
	var base slog.Handler
	switch {
	case json:
		base = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	case term.IsTerminal(int(w.Fd())):
		base = tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000"})
	default:
		base = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	}
	return slog.New(handler{hub: hub, base: base, with: func(h slog.Handler) slog.Handler { return h }}), hub
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.base.Enabled(ctx, l) || h.hub.wants(l)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.hub.tell(ctx, r, h.with)
	if !h.base.Enabled(ctx, r.Level) {
		return nil
	}
	return h.base.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.with
	return handler{hub: h.hub, base: h.base.WithAttrs(attrs), with: func(b slog.Handler) slog.Handler { return with(b).WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	with := h.with
	return handler{hub: h.hub, base: h.base.WithGroup(name), with: func(b slog.Handler) slog.Handler { return with(b).WithGroup(name) }}
}

func (h *logHub) wants(l slog.Level) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.followers {
		if l >= f.level {
			return true
		}
	}
	return false
}

// tell hands a record to the followers. One that does not keep up loses lines: a log never waits for its reader.
func (h *logHub) tell(ctx context.Context, r slog.Record, with func(slog.Handler) slog.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.followers {
		if r.Level < f.level {
			continue
		}
		var b bytes.Buffer
		if with(f.handler(&b)).Handle(ctx, r) != nil {
			continue
		}
		select {
		case f.lines <- b.Bytes():
		default:
		}
	}
}

func (f *follower) handler(w io.Writer) slog.Handler {
	o := &slog.HandlerOptions{Level: f.level}
	if f.json {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// Follow implements httpapi.LogSource.
func (h *logHub) Follow(ctx context.Context, level slog.Level, json bool, each func([]byte) error) error {
	f := &follower{level: level, json: json, lines: make(chan []byte, 512)}
	h.mu.Lock()
	h.followers[f] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.followers, f)
		h.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-f.lines:
			if err := each(line); err != nil {
				return err
			}
		}
	}
}

func levelOf(name string) slog.Level {
	switch name {
	case "trace":
		return slog.LevelDebug - 4
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

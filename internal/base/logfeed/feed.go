// Package logfeed owns the fan-out of a program's log: to where the program writes it, and to whoever follows it
// meanwhile. Everybody may import it.
package logfeed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Feed hands the records of a log to whoever follows it. The zero value has no log yet: Logger gives it one.
type Feed struct {
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
	feed *Feed
	base slog.Handler
	with func(slog.Handler) slog.Handler // attributes and groups added so far
}

// Logger returns a log that writes to base and to the feed.
func (f *Feed) Logger(base slog.Handler) *slog.Logger {
	return slog.New(handler{feed: f, base: base, with: func(h slog.Handler) slog.Handler { return h }})
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.base.Enabled(ctx, l) || h.feed.wants(l)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.feed.hand(ctx, r, h.with)
	if !h.base.Enabled(ctx, r.Level) {
		return nil
	}
	return h.base.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.with
	return handler{feed: h.feed, base: h.base.WithAttrs(attrs), with: func(b slog.Handler) slog.Handler {
		return with(b).WithAttrs(attrs)
	}}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	with := h.with
	return handler{feed: h.feed, base: h.base.WithGroup(name), with: func(b slog.Handler) slog.Handler {
		return with(b).WithGroup(name)
	}}
}

func (f *Feed) wants(l slog.Level) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for to := range f.followers {
		if l >= to.level {
			return true
		}
	}
	return false
}

// hand gives a record to the followers. One that does not keep up loses lines: a log never waits for its reader.
func (f *Feed) hand(ctx context.Context, r slog.Record, with func(slog.Handler) slog.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for to := range f.followers {
		if r.Level < to.level {
			continue
		}
		var b bytes.Buffer
		if to.write(ctx, &b, r, with) != nil {
			continue
		}
		select {
		case to.lines <- b.Bytes():
		default:
		}
	}
}

// write makes a line of a record: an object of JSON, or time, level in brackets and message, as people and programs
// read that follow logs of the field, with the attributes behind them.
func (f *follower) write(
	ctx context.Context, w io.Writer, r slog.Record, with func(slog.Handler) slog.Handler,
) error {
	o := &slog.HandlerOptions{Level: f.level}
	if f.json {
		return with(slog.NewJSONHandler(w, o)).Handle(ctx, r)
	}
	if _, err := fmt.Fprintf(w, "%s [%s] %s: ", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Level,
		r.Message); err != nil {
		return err
	}
	r.Time, r.Message = time.Time{}, ""
	o.ReplaceAttr = withoutHead
	return with(slog.NewTextHandler(w, o)).Handle(ctx, r)
}

// withoutHead drops what stands at the begin of the line already.
func withoutHead(groups []string, a slog.Attr) slog.Attr {
	_, level := a.Value.Any().(slog.Level)
	if len(groups) == 0 && (level && a.Key == slog.LevelKey || a.Key == slog.MessageKey && a.Value.String() == "") {
		return slog.Attr{}
	}
	return a
}

// Follow calls each with every line from a level on, until ctx ends or each fails.
func (f *Feed) Follow(ctx context.Context, level slog.Level, json bool, each func([]byte) error) error {
	to := &follower{level: level, json: json, lines: make(chan []byte, 512)}
	f.mu.Lock()
	if f.followers == nil {
		f.followers = map[*follower]bool{}
	}
	f.followers[to] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.followers, to)
		f.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-to.lines:
			if err := each(line); err != nil {
				return err
			}
		}
	}
}

// Level reads the name of a level; what is none is info.
func Level(name string) slog.Level {
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

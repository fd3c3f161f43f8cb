package logfeed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
)

var errEnough = errors.New("seen enough")

func TestFollowersChooseTheirOwnLevelAndForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &Feed{}
		log := feed.Logger(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
		if log.Enabled(t.Context(), slog.LevelDebug) {
			t.Error("debug lines are made though nobody wants them")
		}
		var text, structured string
		go func() {
			_ = feed.Follow(t.Context(), slog.LevelDebug, false, func(b []byte) error { text += string(b); return nil })
		}()
		go func() {
			_ = feed.Follow(t.Context(), slog.LevelWarn, true, func(b []byte) error {
				structured += string(b)
				return errEnough
			})
		}()
		synctest.Wait()
		part := log.With("component", "x").WithGroup("g")
		part.Debug("small", "n", 1)
		part.Warn("large", "n", 2)
		synctest.Wait()
		const head = "2000-01-01T00:00:00.000Z "
		want := head + "[DEBUG] small: component=x g.n=1\n" + head + "[WARN] large: component=x g.n=2\n"
		if text != want {
			t.Errorf("the follower at debug got %q, want %q", text, want)
		}
		var line struct {
			Msg       string
			Component string
			G         struct{ N int }
		}
		if err := json.Unmarshal([]byte(structured), &line); err != nil || line.Msg != "large" ||
			line.Component != "x" || line.G.N != 2 {
			t.Errorf("the follower at warn got %q, %v", structured, err)
		}
		feed.mu.Lock()
		defer feed.mu.Unlock()
		if len(feed.followers) != 1 {
			t.Errorf("%d followers are known, one has left", len(feed.followers))
		}
	})
}

func TestALogNeverWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &Feed{}
		log := feed.Logger(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
		ctx, cancel := context.WithCancel(t.Context())
		read, got := make(chan struct{}), 0
		go func() {
			_ = feed.Follow(ctx, slog.LevelInfo, false, func([]byte) error { <-read; got++; return nil })
		}()
		synctest.Wait()
		for range 5000 {
			log.Info("line")
		}
		close(read)
		synctest.Wait()
		if got == 0 || got > 600 {
			t.Errorf("a reader that was away got %d of 5000 lines, want those that fit its buffer", got)
		}
		cancel()
	})
}

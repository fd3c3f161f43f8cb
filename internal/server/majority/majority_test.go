package majority_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/server/majority"
)

// world is what server a sees of servers a, b and c.
type world struct {
	mu      sync.Mutex
	leader  string
	changed chan struct{}
	silent  map[string]bool
	asked   map[string]int
	said    bytes.Buffer
}

func (w *world) lead(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leader = name
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) falls(name string, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent[name] = silent
}

// Write implements io.Writer.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

// heard is what was said since it was last asked.
func (w *world) heard() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.said.Reset()
	return w.said.String()
}

func (w *world) watch() *majority.Watch {
	return &majority.Watch{
		Name: "a",
		Leader: func() (string, <-chan struct{}) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.leader, w.changed
		},
		Voters: func() ([]string, error) { return []string{"a", "b", "c"}, nil },
		Ask: func(ctx context.Context, server string) error {
			w.mu.Lock()
			w.asked[server]++
			silent := w.silent[server]
			w.mu.Unlock()
			if silent {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
		Log: slog.New(slog.NewTextHandler(w, nil)),
	}
}

// Given three servers of which none leads, then after an election's time one says since when, who is missing and since
// when that one is, and how many are needed; and when it is over, it is over.
func TestWhoIsMissingWhileNoneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{leader: "b", changed: make(chan struct{}), silent: map[string]bool{}, asked: map[string]int{}}
		m := w.watch()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		at := func(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }
		why := func(want ...string) {
			t.Helper()
			err := m.Why()
			if len(want) == 0 && err == nil {
				return
			}
			if len(want) == 0 || !fault.Has(err, fault.Unavailable) {
				t.Errorf("it says %v", err)
			}
			for _, word := range want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("it does not say %q: %v", word, err)
				}
			}
		}
		says := func(want ...string) {
			t.Helper()
			said := w.heard()
			if n := strings.Count(said, "\n"); n != min(1, len(want)) {
				t.Errorf("it says %d things:\n%s", n, said)
			}
			for _, word := range want {
				if !strings.Contains(said, word) {
					t.Errorf("it does not say %q:\n%s", word, said)
				}
			}
		}
		time.Sleep(time.Minute)
		why()

		began := time.Now()
		w.falls("b", true)
		w.lead("")
		time.Sleep(time.Second)
		why() // one may be elected any moment
		says()
		time.Sleep(9 * time.Second)
		why("no leader since "+at(began)+",", "missing: b since "+at(began))
		says("2 of 3 are needed, and 2 answer", "b since "+at(began))

		time.Sleep(time.Minute)
		says()
		later := time.Now()
		w.falls("c", true)
		time.Sleep(10 * time.Second)
		err := m.Why()
		if err == nil || !strings.Contains(err.Error(), "no leader since "+at(began)) ||
			!strings.Contains(err.Error(), "missing: b since "+at(began)+", c since ") ||
			strings.Contains(err.Error(), "c since "+at(began)) {
			t.Errorf("c fell silent at %s: %v", at(later), err)
		}
		says("2 of 3 are needed, and 1 answer")

		w.falls("b", false)
		w.falls("c", false)
		w.lead("c")
		synctest.Wait()
		why()
		says("a server leads again", "server=c", at(began))

		time.Sleep(time.Minute)
		again := time.Now()
		w.lead("")
		time.Sleep(time.Second)
		why()
		time.Sleep(9 * time.Second)
		why("no leader since "+at(again), "although all that vote answer")
		says()
		time.Sleep(10 * time.Second)
		says("although all that vote answer", at(again))

		if w.asked["a"] != 0 || w.asked["b"] == 0 || w.asked["c"] == 0 {
			t.Errorf("asked were %v", w.asked)
		}
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

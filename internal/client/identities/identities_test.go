package identities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/identities"
	"berth/internal/client/localstate"
	"berth/internal/model/job"
	"berth/internal/port/kv"
)

// servers sign, unless they are away.
type servers struct {
	mu    sync.Mutex
	asked int
	lives time.Duration
	fails error
}

func (s *servers) Sign(_ context.Context, _ ids.Alloc, _ string, names []string) ([]identities.Signed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, s.fails
	}
	var out []identities.Signed
	for _, n := range names {
		s.asked++
		out = append(out, identities.Signed{Token: redact.New(fmt.Sprintf("%s %d", n, s.asked)), Lives: s.lives})
	}
	return out, nil
}

func (s *servers) away(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// task notes what it is given.
type task struct {
	mu    sync.Mutex
	got   []string
	fails int
}

func (t *task) Renewed(_ context.Context, _ *job.WorkloadIdentity, token redact.Secret) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails > 0 {
		t.fails--
		return errors.New("no space")
	}
	t.got = append(t.got, token.Reveal())
	return nil
}

func (t *task) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.got) == 0 {
		return ""
	}
	return t.got[len(t.got)-1]
}

var wanted = []*job.WorkloadIdentity{{Name: "x", TTL: time.Hour, File: true}}

// bubble runs a story with a store that outlives runs of the agent.
func bubble(t *testing.T, story func(t *testing.T, run func(identities.Signer) (*identities.Keeper, func()))) {
	store, err := kv.Open(filepath.Join(t.TempDir(), "s.db"), localstate.Codec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }() // nothing is left to be written
	synctest.Test(t, func(t *testing.T) {
		story(t, func(s identities.Signer) (*identities.Keeper, func()) {
			k := identities.New(identities.Config{Signer: s, Store: store, Log: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- k.Run(ctx) }()
			return k, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// TestIdentitiesAreRenewedInTime: in the middle of their life, once each; after a restart of the agent when they would
// have been without it, and not before; and no more when the task is gone.
func TestIdentitiesAreRenewedInTime(t *testing.T) {
	bubble(t, func(t *testing.T, run func(identities.Signer) (*identities.Keeper, func())) {
		s, web := &servers{lives: time.Hour}, &task{}
		k, stop := run(s)
		first, err := k.Tokens(t.Context(), "a", "web", wanted, web)
		if err != nil || first["x"].Reveal() != "x 1" {
			t.Fatalf("%v, %v", first, err)
		}
		if again, err := k.Tokens(t.Context(), "a", "web", wanted, web); err != nil || !again["x"].Equal(first["x"]) {
			t.Errorf("a restart of the task: %v, %v", again, err)
		}
		time.Sleep(23 * time.Minute)
		if web.last() != "" {
			t.Errorf("renewed after 23 minutes: %v", web.got)
		}
		time.Sleep(8 * time.Minute)
		if web.last() != "x 2" || s.asked != 2 {
			t.Errorf("after half an hour: %v, asked %d times", web.got, s.asked)
		}
		stop()

		k, stop = run(s)
		found := &task{}
		if err := k.Adopt("a", "web", wanted, found); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Minute) // it was renewed after 24 at least, and is good for 24 more
		if found.last() != "" {
			t.Errorf("a restart of the agent renewed %v", found.got)
		}
		time.Sleep(14 * time.Minute)
		if found.last() != "x 3" {
			t.Errorf("after a restart of the agent: %v", found.got)
		}
		if err := k.Drop("a", "web", wanted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if s.asked != 3 {
			t.Errorf("the task is gone, and %d were signed", s.asked)
		}
		stop()
	})
}

// TestServersThatAreAwayAreAskedAgain: a start waits, what runs is renewed when they are back, and what could not be
// put into its place is put there later, without another being signed.
func TestServersThatAreAwayAreAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, run func(identities.Signer) (*identities.Keeper, func())) {
		s, web := &servers{lives: time.Hour}, &task{fails: 2}
		k, stop := run(s)
		defer stop()
		s.away(fault.New(fault.Unavailable, "sign", "x", "nobody leads"))
		if _, err := k.Tokens(t.Context(), "a", "web", wanted, web); !fault.Has(err, fault.NotReady) {
			t.Errorf("without servers: %v", err)
		}
		s.away(fault.New(fault.Denied, "sign", "x", "the allocation has ended"))
		if _, err := k.Tokens(t.Context(), "a", "web", wanted, web); !fault.Has(err, fault.Denied) {
			t.Errorf("refused: %v", err)
		}
		s.away(nil)
		if _, err := k.Tokens(t.Context(), "a", "web", wanted, web); err != nil {
			t.Fatal(err)
		}
		s.away(fault.New(fault.Unavailable, "sign", "x", "nobody leads"))
		time.Sleep(2 * time.Hour)
		if web.last() != "" {
			t.Errorf("nobody signs, and there is %v", web.got)
		}
		s.away(nil)
		time.Sleep(3 * time.Minute)
		if web.last() != "x 2" || s.asked != 2 {
			t.Errorf("they are back: %v, asked %d times", web.got, s.asked)
		}
	})
}

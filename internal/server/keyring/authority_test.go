package keyring_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/server/keyring"
	"berth/internal/testkit/localstate"
)

// Given a cluster whose authority is not made yet, when a person asks for it, then he gets it once it is there, and
// hears after some seconds that it is not if nobody makes it.
func TestAnAuthorityThatIsAboutToBeMadeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		a := &keyring.Authority{
			Keyring: open(t, t.TempDir()), Store: c.Store, Proposer: c, Log: slog.New(slog.DiscardHandler),
		}
		begun := time.Now()
		if _, err := a.Await(t.Context()); !fault.Has(err, fault.Unavailable) || time.Since(begun) > time.Minute {
			t.Fatalf("where nobody makes one, after %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(3*time.Second, func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		got, err := a.Await(t.Context())
		if err != nil || got.Root == nil {
			t.Fatalf("where one is made meanwhile: %v, %v", got, err)
		}
	})
}

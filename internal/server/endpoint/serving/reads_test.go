package serving

import (
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPrefixesOfIdsMayComeWithoutHyphens(t *testing.T) {
	full := "12345678-9abc-def0-1234-56789abcdef0"
	bare := strings.ReplaceAll(full, "-", "")
	for n := range len(bare) {
		if p := UUIDPrefix(bare[:n]); !strings.HasPrefix(full, p) {
			t.Errorf("%q became %q", bare[:n], p)
		}
	}
}

func TestABlockingReadWaitsForTheObjectAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New()
		write(t, s, 1, func(tx *state.Tx) { tx.PutNode(&node.Node{ID: "n"}) })
		reads := 0
		read := func(snap *state.Snap, w *state.Watch) (uint64, error) {
			reads++
			return snap.Node(w, "n").ModifyIndex, nil
		}
		begin := time.Now()
		if err := block(t.Context(), s, 0, time.Hour, read); err != nil || time.Since(begin) != 0 || reads != 1 {
			t.Errorf("without an index: %v after %s", err, time.Since(begin))
		}
		if err := block(t.Context(), s, 1, time.Minute, read); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("the wait ended with %v after %s", err, time.Since(begin))
		}
		done := make(chan error)
		go func() { done <- block(t.Context(), s, 1, time.Hour, read) }()
		synctest.Wait()
		reads = 0
		write(t, s, 2, func(tx *state.Tx) { tx.PutVolume(&volume.Volume{ID: volume.ID{Namespace: "d", ID: "v"}}) })
		synctest.Wait()
		if reads != 0 {
			t.Error("a change elsewhere woke it")
		}
		write(t, s, 3, func(tx *state.Tx) { tx.PutNode(&node.Node{ID: "n"}) })
		if err := <-done; err != nil || reads != 1 {
			t.Errorf("woke with %v after %d reads", err, reads)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := block(ctx, s, 3, time.Hour, read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's end came back as %v", err)
		}
	})
}

func write(t *testing.T, s *state.Store, index uint64, fn func(*state.Tx)) {
	t.Helper()
	at := state.Stamp{Index: index, Time: time.Unix(int64(index), 0)}
	if err := s.Write(at, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

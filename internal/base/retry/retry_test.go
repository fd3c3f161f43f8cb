package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/retry"
)

// TestPausesDoubleUpToTheirBound: given a first pause and a bound, when failures go on, then pauses double, stay at the
// bound, and never overflow.
func TestPausesDoubleUpToTheirBound(t *testing.T) {
	b := retry.Backoff{Min: 500 * time.Millisecond, Max: 3 * time.Second}
	for failures, want := range map[int]time.Duration{
		-1:      500 * time.Millisecond,
		0:       500 * time.Millisecond,
		1:       500 * time.Millisecond,
		2:       time.Second,
		3:       2 * time.Second,
		4:       3 * time.Second,
		1 << 30: 3 * time.Second,
	} {
		if got := b.Pause(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
		seen := map[time.Duration]bool{}
		for range 100 {
			d := b.Jittered(failures)
			if d > want || d < want-want/5 {
				t.Fatalf("after %d failures, with jitter: %s, want at most a fifth below %s", failures, d, want)
			}
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Errorf("after %d failures a hundred pauses are all the same", failures)
		}
	}
	if d := (retry.Backoff{Min: time.Minute, Max: time.Second}).Pause(1); d != time.Second {
		t.Errorf("a first pause above the bound: %s", d)
	}
	if d := (retry.Backoff{Min: time.Hour, Max: math.MaxInt64}).Pause(1 << 30); d != math.MaxInt64 {
		t.Errorf("a bound that no doubling meets exactly: %s", d)
	}
	if d := (retry.Backoff{}).Jittered(5); d != 0 {
		t.Errorf("the zero value waits %s", d)
	}
}

// TestASleepEndsWithItsContext: given a long sleep, when its context ends or its bell rings, then it ends then, and
// says whether to go on.
func TestASleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if !retry.Sleep(ctx, time.Second) || time.Since(began) != time.Second {
			t.Errorf("a sleep of a second took %s or said that ctx ended", time.Since(began))
		}
		if !retry.Sleep(ctx, 0) || !retry.Sleep(ctx, -time.Second) || time.Since(began) != time.Second {
			t.Error("no pause is a pause")
		}
		wake := make(chan struct{})
		close(wake)
		if !retry.SleepOr(ctx, time.Hour, wake) || time.Since(began) != time.Second {
			t.Error("a sleeper was not woken")
		}
		if retry.Sleep(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("a sleep ended after %s, not with its context", time.Since(began))
		}
		for range 100 { // of two that are ready, either may be seen first
			if retry.SleepOr(ctx, time.Hour, wake) {
				t.Fatal("a sleeper that is woken under an ended context goes on")
			}
		}
		if retry.Sleep(ctx, 0) || (retry.Backoff{Min: 1, Max: 1}).Sleep(ctx, 1) {
			t.Error("a sleep under an ended context says to go on")
		}
	})
}

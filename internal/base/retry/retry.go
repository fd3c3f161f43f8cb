// Package retry owns how long somebody waits before trying again: a sleep that a context ends, and a pause that doubles
// up to a bound, with jitter, so that many who failed together do not come back together. Everybody may import it.
package retry

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Sleep waits for d, or until ctx ends. It reports whether d passed: false means that the caller should return. Without
// a pause (d <= 0) it does not wait.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	return SleepOr[struct{}](ctx, d, nil)
}

// SleepOr waits like Sleep, or until wake delivers or is closed; nil never does. It reports whether ctx goes on.
func SleepOr[T any](ctx context.Context, d time.Duration, wake <-chan T) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-wake:
	}
	return ctx.Err() == nil
}

// Backoff is a pause that doubles with each failure in a row: Min after the first, never above Max. The zero value does
// not wait.
type Backoff struct {
	Min time.Duration
	Max time.Duration
}

// Pause is the wait after so many failures in a row, without jitter: for times that are stored, where everybody must
// come to the same. Less than one failure counts as one.
func (b Backoff) Pause(failures int) time.Duration {
	d := b.Min
	for range failures - 1 {
		if d >= b.Max/2 {
			return b.Max
		}
		d *= 2
	}
	return min(d, b.Max)
}

// Spread is Pause, shortened by up to a fifth that follows from who waits: for times that are stored, so that many who
// failed together do not come back together.
func (b Backoff) Spread(failures int, who string) time.Duration {
	d := b.Pause(failures)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", who, failures) // a hash takes everything
	return d - time.Duration(h.Sum64()%uint64(d/5+1))
}

// Jittered is Pause, shortened by up to a fifth at random.
func (b Backoff) Jittered(failures int) time.Duration {
	d := b.Pause(failures)
	return d - rand.N(d/5+1)
}

// Sleep waits for the jittered pause after so many failures in a row; false means that ctx ended.
func (b Backoff) Sleep(ctx context.Context, failures int) bool {
	return Sleep(ctx, b.Jittered(failures))
}

package controllers

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"
)

// Rests are the pauses between tries, counted by the clock that nobody sets. The time in a record is for people, and
// for the next leader; a wall clock that is set back must not turn seconds into days.
type Rests[K comparable] struct {
	mu    sync.Mutex
	until map[K]rest
}

type rest struct {
	recorded time.Time // as the record has it
	end      time.Time // with a monotonic reading
}

// longestRest bounds what a record of another leader can demand: the longest pause that there is.
const longestRest = time.Hour

// For begins a pause and returns its end as it is recorded.
func (r *Rests[K]) For(key K, pause time.Duration) time.Time {
	end := time.Now().Add(pause)
	r.set(key, end.UTC().Round(0), end)
	return end.UTC().Round(0)
}

func (r *Rests[K]) set(key K, recorded, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[K]rest{}
	}
	r.until[key] = rest{recorded, end}
}

// Left is how long a key rests still, by the time in its record. A pause that another leader began goes on from a point
// of it that differs from key to key, so that not everything that rests is tried when a leader has just been elected.
func (r *Rests[K]) Left(key K, recorded time.Time) time.Duration {
	if recorded.IsZero() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.until, key)
		return 0
	}
	r.mu.Lock()
	known, ok := r.until[key]
	r.mu.Unlock()
	if ok && known.recorded.Equal(recorded) {
		return time.Until(known.end)
	}
	left := min(max(0, time.Until(recorded)), longestRest)
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, key) // a hash takes everything
	left = time.Duration(float64(left) * float64(h.Sum64()%1000) / 1000)
	r.set(key, recorded, time.Now().Add(left))
	return left
}

package controllers

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pause ends by the clock that nobody sets, whatever its record says.
func TestARestIsCountedByTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rests[string]
		recorded := r.For("v", time.Minute)
		if left := r.Left("v", recorded); left != time.Minute {
			t.Errorf("it rests for %s", left)
		}
		time.Sleep(59 * time.Second)
		if left := r.Left("v", recorded); left != time.Second {
			t.Errorf("a second before its end it rests for %s", left)
		}
		if left := r.Left("v", time.Time{}); left != 0 {
			t.Errorf("a person asked again, it rests for %s", left)
		}
	})
}

// What another leader recorded is bounded, however far the clocks are apart, and ends at other times for other keys.
func TestTheRestOfAnotherLeaderIsBoundedAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rests[string]
		seen := map[time.Duration]bool{}
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			left := r.Left(key, time.Now().Add(24*time.Hour))
			if left > time.Hour {
				t.Errorf("%s rests for %s", key, left)
			}
			seen[left] = true
		}
		if len(seen) < 4 {
			t.Errorf("five keys end their rest at %d times", len(seen))
		}
		recorded := time.Now().Add(time.Minute)
		first := r.Left("f", recorded)
		time.Sleep(first / 2)
		if left := r.Left("f", recorded); left != first-first/2 {
			t.Errorf("asked again in the middle, it rests for %s of %s", left, first)
		}
	})
}

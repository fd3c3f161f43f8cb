package leader

import (
	"testing"
	"time"
)

// EndApart fails the test unless repeated blocking reads that nothing wakes take between wait and a sixteenth more, and
// not all of them the same. It is called in a synctest bubble.
func EndApart(t *testing.T, what string, wait time.Duration, read func() error) {
	t.Helper()
	took := map[time.Duration]bool{}
	for range 10 {
		began := time.Now()
		if err := read(); err != nil {
			t.Fatal(err)
		}
		d := time.Since(began)
		if took[d] = true; d < wait || d > wait+wait/16 {
			t.Errorf("%s: waited %s", what, d)
		}
	}
	if len(took) < 2 {
		t.Errorf("%s: all reads waited the same %v", what, took)
	}
}

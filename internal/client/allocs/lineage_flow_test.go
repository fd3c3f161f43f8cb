package allocs_test

import (
	"testing"

	"berth/internal/client/allocs"
	"berth/internal/model/alloc"
)

// TestBeginForEveryCombination: what has ended, or whose record is lost or damaged, is never run a second time.
func TestBeginForEveryCombination(t *testing.T) {
	for bits := range 1 << 9 {
		is := func(bit int) bool { return bits&(1<<bit) > 0 }
		a := &alloc.Alloc{CreateIndex: 5, DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientPending}
		h := allocs.Here{
			Unrecorded: is(0) || is(1),
			Directory:  is(1),
			Damaged:    is(2),
			Stopping:   is(3),
			Ended:      is(8),
		}
		if is(4) {
			a.Adopted = 9
		}
		if is(5) {
			a.DesiredStatus = alloc.DesiredStop
		}
		if is(6) {
			a.ClientStatus = alloc.ClientComplete
		}
		restored := uint64(5)
		if is(7) {
			restored = 6
		}
		want := allocs.Begins
		switch {
		case is(4) && !is(5) && !is(6) && (is(0) || is(1)):
			want = allocs.TakesUp
		case is(6) || is(2) || is(1) || is(3) || is(8):
			want = allocs.Passes
		case is(7):
			want = allocs.NotBegun
		}
		if got := allocs.Begin(a, restored, h); got != want {
			t.Errorf("case %09b: %d, want %d", bits, got, want)
		}
	}
}

// TestLeaveForEveryAnswer: only what the servers say to have removed ends.
func TestLeaveForEveryAnswer(t *testing.T) {
	for _, c := range []struct {
		removed, orphan, released bool
		want                      allocs.Leaving
	}{
		{false, false, false, allocs.Stays},
		{false, false, true, allocs.Stays},
		{false, true, false, allocs.Orphaned},
		{false, true, true, allocs.Orphaned},
		{true, true, false, allocs.Orphaned}, // in doubt it is kept
		{true, false, false, allocs.Stops},
		{true, false, true, allocs.Destroyed},
	} {
		if got := allocs.Leave(c.removed, c.orphan, c.released); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

package planner

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// TestWhatIsAppliedIsCountedOnce: a plan that was in flight when the next one was taken up, and is in the state that
// this one is held against, takes its place there once.
func TestWhatIsAppliedIsCountedOnce(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		a := b.alloc("a", "n1", 500)
		flies := &result{placed: []*scheduler.Placement{place(a)}}
		b.p.track(flies)
		if v := b.p.verify(plan(place(b.alloc("big", "n1", 600)))); len(v.rejected) != 1 || len(v.rivals) != 1 {
			t.Errorf("what is in flight is not counted: %+v", v)
		}
		b.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{b.alloc("a", "n1", 500)}})
		if v := b.p.verify(plan(place(b.alloc("b", "n1", 500)))); len(v.rejected) > 0 || len(v.rivals) > 0 {
			t.Errorf("what is applied is counted twice: %+v", v.rejected)
		}
		b.p.settle(flies)
	})
}

// TestAClaimInTheQueueOfWhatIsGoneGivesWay: it is dropped by the plan that is given the volume; one of an alloc that is
// there keeps its place.
func TestAClaimInTheQueueOfWhatIsGoneGivesWay(t *testing.T) {
	for _, gone := range []bool{true, false} {
		atBench(t, nil, func(t *testing.T, b *bench) {
			v := b.volume("v")
			queued := claim(v, volume.Queued)
			queued.Alloc, queued.Node = "waits", "n1"
			if !gone {
				b.submit(plan(place(b.alloc("waits", "n1", 1))))
			}
			if err := b.Store.Write(b.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
				queued.Identify(tx.Volume(nil, v))
				tx.PutClaim(queued)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r := b.submit(plan(place(b.alloc("new", "n2", 1), claim(v, volume.Held))))
			s := b.Store.Snapshot()
			kept := s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: "waits"}) != nil
			given := s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: ids.Alloc("new")}) != nil
			if kept == gone || given != gone {
				t.Errorf("gone %t: it is kept: %t; the volume is given: %t: %+v", gone, kept, given, r)
			}
		})
	}
}

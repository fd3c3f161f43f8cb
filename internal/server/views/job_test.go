package views_test

import (
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/server/state"
	"berth/internal/server/views"
)

func writeTo(t *testing.T, s *state.Store, index uint64, fn func(*state.Tx)) {
	t.Helper()
	st := state.Stamp{Index: index, Time: time.Unix(int64(index), 0)}
	if err := s.Write(st, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestSummaryAndStatusFollowAllocs(t *testing.T) {
	s := state.New()
	writeTo(t, s, 1, func(tx *state.Tx) {
		j := &job.Job{Namespace: "d", ID: "j", Name: "j"}
		j.Type, j.TaskGroups = job.TypeService, []*job.TaskGroup{{Name: "g"}, {Name: "h"}}
		tx.PutJob(j)
	})
	view := func() (string, uint64) {
		snap := s.Snapshot()
		v, index := views.JobView(snap, nil, snap.Job(nil, "d", "j"))
		if len(v.Summary) != 2 {
			t.Errorf("summary of %d groups", len(v.Summary))
		}
		return v.Status, index
	}
	if st, _ := view(); st != job.StatusPending {
		t.Errorf("at first: %s", st)
	}
	put := func(index uint64, client string) {
		writeTo(t, s, index, func(tx *state.Tx) {
			tx.PutAlloc(&alloc.Alloc{
				ID:             "1",
				Namespace:      "d",
				Job:            "j",
				JobCreateIndex: 1,
				TaskGroup:      "g",
				ClientStatus:   client,
			})
		})
	}
	put(2, alloc.ClientRunning)
	if st, index := view(); st != job.StatusRunning || index != 2 {
		t.Errorf("with a running alloc: %s at %d", st, index)
	}
	put(3, alloc.ClientFailed)
	if st, index := view(); st != job.StatusDead || index != 3 {
		t.Errorf("with a failed alloc: %s at %d", st, index)
	}
}

// Given a list that somebody reads, twice, when something is added to it, then both readings were the same, and who
// waits for the list wakes.

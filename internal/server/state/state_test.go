package state

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state/records"
)

func write(t *testing.T, s *Store, index uint64, fn func(*Tx)) {
	t.Helper()
	err := s.Write(Stamp{Index: index, Time: time.Unix(int64(index), 0)}, func(tx *Tx) error { fn(tx); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func jobNamed(ns ids.Namespace, id ids.Job) *job.Job { return &job.Job{Namespace: ns, ID: id} }

func TestListsAreInKeyOrderAndKeepToTheirNamespaceAndPrefix(t *testing.T) {
	s := New()
	write(t, s, 5, func(tx *Tx) {
		for _, id := range []ids.Job{"b", "a/b", "a", "ab", "a\x00"} {
			tx.PutJob(jobNamed("x", id))
		}
		tx.PutJob(jobNamed("xa", "a"))
	})
	list := func(ns ids.Namespace, prefix string) (out []string) {
		for j := range s.Snapshot().Jobs(nil, ns, prefix) {
			out = append(out, string(j.Namespace)+":"+string(j.ID))
		}
		return out
	}
	if got := list("x", ""); !slices.Equal(got, []string{"x:a", "x:a\x00", "x:a/b", "x:ab", "x:b"}) {
		t.Errorf("all of x: %q", got)
	}
	if got := list("x", "a"); len(got) != 4 {
		t.Errorf("x with prefix a: %q", got)
	}
	if got := list("*", "a"); len(got) != 5 {
		t.Errorf("everywhere with prefix a: %q", got)
	}
	if j := s.Snapshot().Job(nil, "x", "a"); j == nil || j.ID != "a" {
		t.Errorf("got %+v", j)
	}
}

func TestASnapshotStandsStillWhileTheStateMovesOn(t *testing.T) {
	s := New()
	write(t, s, 1, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n", Name: "old"}) })
	before := s.Snapshot()
	write(t, s, 2, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n", Name: "new"}) })
	if before.Node(nil, "n").Name != "old" || before.Index() != 1 {
		t.Error("a snapshot moved")
	}
	n := s.Snapshot().Node(nil, "n")
	if n.Name != "new" || n.CreateIndex != 1 || n.ModifyIndex != 2 {
		t.Errorf("got %+v", n)
	}
}

func TestAFailedStepLeavesNothingButItsIndex(t *testing.T) {
	s := New()
	refused := errors.New("no")
	err := s.Write(Stamp{Index: 3}, func(tx *Tx) error {
		tx.PutNode(&node.Node{ID: "n"})
		if tx.Node(nil, "n") == nil {
			t.Error("a step does not read what it wrote")
		}
		return refused
	})
	if !errors.Is(err, refused) || s.Snapshot().Node(nil, "n") != nil || s.Snapshot().Index() != 3 {
		t.Errorf("%v, at %d", err, s.Snapshot().Index())
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Write(Stamp{Index: 4}, func(*Tx) error { panic("defect") })
	}()
	write(t, s, 5, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n"}) }) // the store is not locked by it
}

func TestATransactionMayWriteWhileItReadsAList(t *testing.T) {
	s := New()
	write(t, s, 1, func(tx *Tx) {
		for _, id := range []ids.Alloc{"a", "b", "c", "d"} {
			tx.PutAlloc(&alloc.Alloc{ID: id, Node: "n"})
		}
	})
	write(t, s, 2, func(tx *Tx) {
		seen := 0
		for a := range tx.AllocsByNode(nil, "n") {
			seen++
			n := *a
			n.Node = "m"
			tx.PutAlloc(&n)
		}
		if seen != 4 {
			t.Errorf("saw %d", seen)
		}
	})
	if got := len(slices.Collect(s.Snapshot().AllocsByNode(nil, "m"))); got != 4 {
		t.Errorf("%d moved", got)
	}
}

func TestTheIndexOfAReadGrowsWithItsAnswerAlone(t *testing.T) {
	s := New()
	index := func(ns ids.Namespace, id ids.Job) uint64 {
		snap := s.Snapshot()
		return snap.ReadIndex(Allocs, alloc.ModifyIndexes(slices.Collect(snap.AllocsByJob(nil, ns, id)))...)
	}
	if got := index("d", "a"); got != 1 {
		t.Errorf("of nothing: %d", got)
	}
	write(t, s, 7, func(tx *Tx) { tx.PutAlloc(&alloc.Alloc{ID: "1", Namespace: "d", Job: "a"}) })
	write(t, s, 9, func(tx *Tx) { tx.PutAlloc(&alloc.Alloc{ID: "2", Namespace: "d", Job: "b"}) })
	if a, b := index("d", "a"), index("d", "b"); a != 7 || b != 9 {
		t.Errorf("a at %d, b at %d", a, b)
	}
	if got := s.Snapshot().TableIndex(Allocs); got != 9 {
		t.Errorf("the table is at %d", got)
	}
	write(t, s, 11, func(tx *Tx) { tx.DeleteAlloc("1") })
	if got := index("d", "a"); got != 11 {
		t.Errorf("after the removal: %d", got)
	}
}

func TestARestoreWakesThoseWhoWatchedTheOldState(t *testing.T) {
	s, other := New(), New()
	write(t, other, 9, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n", Name: "restored"}) })
	var b bytes.Buffer
	if err := other.Snapshot().Persist(&b); err != nil {
		t.Fatal(err)
	}
	w := NewWatch()
	s.Snapshot().Node(w, "n")
	if err := s.Restore(&b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	snap, err := s.SnapshotAt(ctx, 9)
	if err != nil || snap.Node(nil, "n").Name != "restored" || snap.TableIndex(Nodes) != 9 {
		t.Errorf("restored: %v", err)
	}
}

func TestABrokenSnapshotIsRefusedWhole(t *testing.T) {
	s := New()
	write(t, s, 1, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n"}) })
	var b bytes.Buffer
	if err := s.Snapshot().Persist(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for cut := range len(whole) {
		fresh := New()
		write(t, fresh, 4, func(tx *Tx) { tx.PutNode(&node.Node{ID: "mine"}) })
		if err := fresh.Restore(bytes.NewReader(whole[:cut])); err == nil {
			t.Fatalf("cut off after %d of %d bytes it was taken", cut, len(whole))
		}
		if fresh.Snapshot().Node(nil, "mine") == nil {
			t.Fatal("a refused snapshot took the state away")
		}
	}
	var strange bytes.Buffer
	stream := []records.Record{{Format: snapshotFormat}, {Table: "tomorrow", Object: []byte{0xa0}}, {Count: 2}}
	for _, r := range stream {
		if err := records.Write(&strange, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := New().Restore(&strange); err == nil {
		t.Error("a table of a newer program was skipped")
	}
	if err := New().Restore(io.LimitReader(bytes.NewReader(nil), 0)); err == nil {
		t.Error("nothing was taken as a snapshot")
	}
}

func TestAListWakesForWhatIsAddedToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		write(t, s, 1, func(tx *Tx) { tx.PutNode(&node.Node{ID: "a"}) })
		w := NewWatch()
		list := s.Snapshot().Nodes(w, "")
		if first, second := len(slices.Collect(list)), len(slices.Collect(list)); first != 1 || second != 1 {
			t.Errorf("%d nodes, then %d", first, second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		woken := make(chan error, 1)
		go func() { woken <- w.Wait(ctx) }()
		synctest.Wait()
		write(t, s, 2, func(tx *Tx) { tx.PutNode(&node.Node{ID: "b"}) })
		if err := <-woken; err != nil {
			t.Error(err)
		}
	})
}

// Given somebody who has read a later page of the volumes, then a volume that is new on any page wakes them: what
// stands on theirs may be another.
func TestWhoReadALaterPageIsWoken(t *testing.T) {
	s := New()
	put := func(index uint64, id ids.Volume) {
		write(t, s, index, func(tx *Tx) {
			tx.PutVolume(&volume.Volume{ID: volume.ID{Namespace: "default", ID: id}})
		})
	}
	put(1, "m")
	w := NewWatch()
	for range s.Snapshot().VolumesFrom(w, volume.ID{Namespace: "default", ID: "k"}, "") {
	}
	put(2, "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Wait(ctx); err != nil {
		t.Error(err)
	}
}

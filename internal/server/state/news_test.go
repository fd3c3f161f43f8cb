package state_test

import (
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// TestNewsAreWhatWasWritten: whoever reads the news hears of everything that was written about storage since, of what
// was removed too, and of nothing else. One who has read nothing, or comes back after too much, hears that anything may
// have changed.
func TestNewsAreWhatWasWritten(t *testing.T) {
	store := state.New()
	index := uint64(0)
	write := func(fn func(*state.Tx)) {
		t.Helper()
		index++
		if err := store.Write(state.Stamp{Index: index}, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	key := func(i int) volume.StagingKey {
		return volume.StagingKey{Plugin: "p", ExternalID: string(rune('a' + i%26))}
	}
	claim := func(i int) *volume.Claim {
		return &volume.Claim{
			Volume:     volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(key(i).ExternalID)},
			Plugin:     "p",
			ExternalID: key(i).ExternalID,
			Alloc:      "a",
		}
	}
	var c state.Cursor
	read := func(want ...volume.StagingKey) {
		t.Helper()
		seq, known := store.Snapshot().News(nil, &c)
		news := slices.Collect(seq)
		if !known || len(news) != len(want) {
			t.Fatalf("news %+v, known %v, want %+v", news, known, want)
		}
		for i, k := range want {
			if news[i].Staging != k {
				t.Errorf("news %d are of %+v, want %+v", i, news[i].Staging, k)
			}
		}
	}
	write(func(tx *state.Tx) { tx.PutClaim(claim(0)) })
	if _, known := store.Snapshot().News(nil, &c); known {
		t.Error("who has read nothing knows what changed")
	}
	read()
	write(func(tx *state.Tx) { tx.PutClaim(claim(1)); tx.PutClaim(claim(2)) })
	write(func(tx *state.Tx) { tx.PutClaim(claim(1)) })
	old := store.Snapshot()
	write(func(tx *state.Tx) { tx.DeleteClaim(claim(0).Key()) })
	seq, known := old.News(nil, &c)
	if news := slices.Collect(seq); !known || len(news) != 3 || news[0].Staging != key(1) || news[2] != news[0] {
		t.Errorf("an older snapshot has the news %+v, known %v", news, known)
	}
	read(key(0))
	read()
	w := state.NewWatch()
	seq, _ = store.Snapshot().News(w, &c)
	if news := slices.Collect(seq); len(news) != 0 {
		t.Errorf("news: %+v", news)
	}
	write(func(tx *state.Tx) { tx.DeleteClaim(claim(1).Key()) })
	if err := w.Wait(t.Context()); err != nil { // else it waits until the test is given up
		t.Fatal(err)
	}
	read(key(1))
	for range 70 {
		write(func(tx *state.Tx) {
			for i := range 1000 {
				tx.PutClaim(claim(i))
			}
		})
	}
	if _, known := store.Snapshot().News(nil, &c); known {
		t.Error("more was written than is remembered")
	}
	read()
}

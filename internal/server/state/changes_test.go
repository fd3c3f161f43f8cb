package state_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/partition"
	"berth/internal/server/state"
	"berth/internal/server/state/changes"
)

// follower is who keeps a copy of the node pools by what he gets.
type follower struct {
	pools map[string]*partition.NodePool
	last  uint64
}

// take takes what is new, and stops with what comes twice, out of order, or does not go on from what he has.
func (f *follower) take(t *testing.T, feed *changes.Feed) (more <-chan struct{}) {
	t.Helper()
	for {
		batches, more, err := feed.From(f.last+1, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			return more
		}
		for _, b := range batches {
			if b.Index <= f.last {
				t.Fatalf("index %d comes after %d", b.Index, f.last)
			}
			f.last = b.Index
			seen := map[string]bool{}
			for _, c := range b.Changes {
				p := c.Object().(*partition.NodePool)
				if seen[p.Name] {
					t.Fatalf("index %d tells of %s twice", b.Index, p.Name)
				}
				seen[p.Name] = true
				if was, _ := c.Old.(*partition.NodePool); was != f.pools[p.Name] {
					t.Fatalf("index %d: before the change %s was another", b.Index, p.Name)
				}
				if c.Now != nil && p.ModifyIndex != b.Index {
					t.Fatalf("index %d tells what index %d wrote", b.Index, p.ModifyIndex)
				}
				if delete(f.pools, p.Name); c.Now != nil {
					f.pools[p.Name] = p
				}
			}
		}
	}
}

// TestWhoFollowsTheChangesHasTheState: whoever follows what the steps of batches changed, drawn ones that fail early
// and
// late among them, while others write, gets each change once, in the order of the log, and ends with what the state
// has.
func TestWhoFollowsTheChangesHasTheState(t *testing.T) {
	store := state.New()
	r := rand.New(rand.NewPCG(1, 2))
	steps := func(from uint64) (out []state.Step) {
		for i := range uint64(1 + r.IntN(5)) {
			draw := [4]int{r.IntN(6), r.IntN(4), r.IntN(6), r.IntN(8)}
			out = append(out, state.Step{Stamp: state.Stamp{Index: from + i}, Do: func(tx *state.Tx) error {
				if draw[3] == 0 {
					return fault.New(fault.Invalid, "write", "a pool", "early")
				}
				for n := range draw[1] {
					tx.PutNodePool(&partition.NodePool{Name: fmt.Sprint((draw[0] + n) % 6)})
				}
				tx.DeleteNodePool(fmt.Sprint(draw[2]))
				if draw[3] == 1 {
					return fault.New(fault.Invalid, "write", "a pool", "late")
				}
				return nil
			}})
		}
		return out
	}
	const last = 2000
	written := make(chan struct{})
	go func() {
		defer close(written)
		for at := uint64(1); at < last; {
			all := steps(at)
			store.Batch(all)
			at += uint64(len(all))
		}
	}()
	f := &follower{pools: map[string]*partition.NodePool{}}
	for done := false; !done; {
		more := f.take(t, store.Changes())
		select {
		case <-more:
		case <-written:
			f.take(t, store.Changes())
			done = true
		}
	}
	count := 0
	for p := range store.Snapshot().NodePools(nil, "") {
		if count++; f.pools[p.Name] != p {
			t.Errorf("the follower has not %s as it is", p.Name)
		}
	}
	if count != len(f.pools) || f.last < last-100 {
		t.Errorf("the state has %d pools, the follower %d at index %d", count, len(f.pools), f.last)
	}
}

// TestWhoFollowsTooSlowlyIsRefused: the memory of changes is bounded in changes and in bytes, and whoever comes for
// what it
// has forgotten is refused; so is who follows a state that was replaced.
func TestWhoFollowsTooSlowlyIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		entries, perEntry, size int
	}{
		"changes": {changes.MaxChanges/64 + 50, 64, 0},
		"bytes":   {40, 1, changes.MaxBytes / 20},
	} {
		store := state.New()
		for i := range c.entries {
			at := state.Stamp{Index: uint64(i + 1)}
			store.Batch([]state.Step{{Stamp: at, Size: c.size, Do: func(tx *state.Tx) error {
				for n := range c.perEntry {
					tx.PutEval(&eval.Eval{ID: evalID(n)})
				}
				return nil
			}}})
		}
		feed := store.Changes()
		if _, _, err := feed.From(1, 10); !fault.Has(err, fault.Unavailable) {
			t.Errorf("%s: who fell behind hears %v", name, err)
		}
		first := feed.First()
		all, _, err := feed.From(first, c.entries)
		if err != nil || first == 1 || all[0].Index != first || all[len(all)-1].Index != uint64(c.entries) {
			t.Errorf("%s: from %d on %d batches are remembered (%v)", name, first, len(all), err)
		}
		held := 0
		for _, b := range all {
			held += len(b.Changes)
		}
		if held > changes.MaxChanges || c.size > 0 && len(all)*c.size > changes.MaxBytes {
			t.Errorf("%s: %d changes are remembered, in %d batches", name, held, len(all))
		}
		_, more, err := feed.From(uint64(c.entries)+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		restored(t, store)
		<-more
		if _, _, err := feed.From(uint64(c.entries)+1, 1); !fault.Has(err, fault.Unavailable) {
			t.Errorf("%s: who follows what was replaced hears %v", name, err)
		}
	}
}

func evalID(n int) ids.Eval { return ids.Eval(fmt.Sprintf("e%d", n)) }

// restored replaces a state by what it is.
func restored(t *testing.T, s *state.Store) {
	t.Helper()
	var saved bytes.Buffer
	if err := s.Snapshot().Persist(&saved); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(&saved); err != nil {
		t.Fatal(err)
	}
}

package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/base/instants"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/volume"
)

var errRefused = errors.New("refused")

// deeds draws a step: what it writes follows from what it reads, and it may fail before or after that.
func deeds(r *rapid.T, index uint64) Step {
	id := rapid.SampledFrom([]string{"a", "ab"}).Draw(r, "object")
	kind := rapid.SampledFrom([]string{"node", "node", "no-node", "volume", "no-volume", "claim", "no-claim", "eval",
		"no-eval", "all"}).
		Draw(r, "deed")
	pool := rapid.SampledFrom([]string{"p", "q"}).Draw(r, "pool")
	fails := rapid.SampledFrom([]string{"", "", "", "before", "after"}).Draw(r, "fails")
	return Step{Stamp: Stamp{Index: index, Time: instants.Time(int64(index))}, Do: func(tx *Tx) error {
		if fails == "before" {
			return errRefused
		}
		switch v := (volume.ID{Namespace: "n", ID: ids.Volume(id)}); kind {
		case "node":
			// Its name tells what the step saw: objects, and lists of those that have been written and of others.
			saw := fmt.Sprint(len(slices.Collect(tx.Nodes(nil, id))), len(slices.Collect(tx.Volumes(nil, "n", ""))),
				tx.Index(), tx.TableIndex(Nodes), tx.ReadIndex(Volumes))
			if old := tx.Node(nil, ids.Node(id)); old != nil {
				saw += "+" + old.Name[:min(len(old.Name), 20)]
			}
			tx.PutNode(&node.Node{ID: ids.Node(id), Name: saw, NodePool: pool})
		case "no-node":
			tx.DeleteNode(ids.Node(id))
		case "volume":
			tx.PutVolume(&volume.Volume{ID: v, UID: id, Status: volume.Status{ExternalID: id}})
		case "no-volume":
			tx.DeleteVolume(v)
		case "claim":
			for c := range tx.Claims(nil) {
				tx.PutClaim(&volume.Claim{Volume: c.Volume, ExternalID: "again", Alloc: c.Alloc, Job: "seen"})
			}
			tx.PutClaim(&volume.Claim{Volume: v, ExternalID: id, Alloc: "x", Node: ids.Node(id)})
		case "no-claim":
			tx.DeleteClaim(volume.ClaimKey{Volume: v, Alloc: "x"})
		case "eval":
			tx.PutEval(&eval.Eval{ID: ids.Eval(id), Status: pool})
		case "no-eval":
			tx.DeleteEval(ids.Eval(id))
		case "all":
			tx.TouchAll()
		}
		if fails == "after" {
			return errRefused
		}
		return nil
	}}
}

// TestABatchIsItsStepsOneByOne: whatever steps are committed together, and whichever of them fail before or after they
// wrote, the state, what is news in it, and when tables changed are the same as if each had been committed alone.
func TestABatchIsItsStepsOneByOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		together, alone := New(), New()
		var heard [2]Cursor
		var evals [2]EvalCursor
		index := uint64(0)
		for range rapid.IntRange(1, 4).Draw(r, "batches") {
			var steps []Step
			for range rapid.IntRange(0, 12).Draw(r, "steps") {
				index++
				steps = append(steps, deeds(r, index))
			}
			errs := together.Batch(steps)
			for i, s := range steps {
				if err := alone.Write(s.Stamp, s.Do); !errors.Is(errs[i], err) || (err == nil) != (errs[i] == nil) {
					r.Fatalf("step %d: %v, alone %v", i, errs[i], err)
				}
			}
			a, b := persisted(r, together), persisted(r, alone)
			if !bytes.Equal(a, b) {
				r.Fatalf("the states differ:\n%q\n%q", a, b)
			}
			x, all := together.Snapshot().News(nil, &heard[0])
			y, allToo := alone.Snapshot().News(nil, &heard[1])
			if x, y := slices.Collect(x), slices.Collect(y); all != allToo || !slices.Equal(x, y) {
				r.Fatalf("news %v (%v), alone %v (%v)", x, all, y, allToo)
			}
			es, all := together.Snapshot().EvalNews(&evals[0])
			fs, allToo := alone.Snapshot().EvalNews(&evals[1])
			if x, y := slices.Collect(es), slices.Collect(fs); all != allToo || !slices.Equal(x, y) {
				r.Fatalf("news of evaluations %v (%v), alone %v (%v)", x, all, y, allToo)
			}
		}
		if x, y := groups(together), groups(alone); !slices.Equal(x, y) {
			r.Fatalf("groups %v, alone %v", x, y)
		}
	})
}

func groups(s *Store) (out []node.GroupSize) {
	for g := range s.Snapshot().NodeGroups() {
		out = append(out, *g)
	}
	return out
}

func persisted(r *rapid.T, s *Store) []byte {
	var out bytes.Buffer
	if err := s.Snapshot().Persist(&out); err != nil {
		r.Fatal(err)
	}
	return out.Bytes()
}

// TestABatchIsSeenWhole: who waits is woken once all steps are there, and sees no state between them.
func TestABatchIsSeenWhole(t *testing.T) {
	s := New()
	w := NewWatch()
	before := s.Snapshot()
	before.Node(w, "a")
	put := func(id ids.Node) func(*Tx) error {
		return func(tx *Tx) error {
			if s.Snapshot().Index() != 0 {
				t.Error("a part of the batch is seen")
			}
			tx.PutNode(&node.Node{ID: id})
			return nil
		}
	}
	s.Batch([]Step{{Stamp: Stamp{Index: 1}, Do: put("a")}, {Stamp: Stamp{Index: 2}, Do: put("b")}})
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := s.Snapshot()
	a, b := now.Node(nil, "a"), now.Node(nil, "b")
	if a == nil || b == nil || a.ModifyIndex != 1 || b.ModifyIndex != 2 {
		t.Errorf("nodes %+v, %+v", a, b)
	}
	if now.Index() != 2 || now.TableIndex(Nodes) != 2 || before.Node(nil, "a") != nil {
		t.Errorf("index %d, of nodes %d; the snapshot before: %+v", now.Index(), now.TableIndex(Nodes), before)
	}
}

package fsm_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/inventory"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

var someEpoch = volume.Epoch{Incarnation: "i", Index: 1}

// withClaims puts volumes and, for each, claims of a few allocs on node n into the state.
func withClaims(t *testing.T, c *localstate.Cluster, st volume.ClaimState, allocs ...ids.Alloc) []volume.StagingKey {
	t.Helper()
	var keys []volume.StagingKey
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		m := *tx.Meta(nil)
		m.Incarnation = someEpoch.Incarnation // the claims are of this state's own history
		tx.PutMeta(&m)
		for i := range 2 {
			id := volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprint("v", i))}
			key := volume.StagingKey{Plugin: "p", ExternalID: fmt.Sprint("x", i)}
			keys = append(keys, key)
			tx.PutVolume(&volume.Volume{ID: id, UID: key.ExternalID, Spec: volume.Spec{Plugin: key.Plugin},
				Status: volume.Status{Phase: volume.PhaseReady, ExternalID: key.ExternalID}})
			for _, a := range allocs {
				tx.PutClaim(&volume.Claim{
					Volume:         id,
					UID:            key.ExternalID,
					Plugin:         key.Plugin,
					ExternalID:     key.ExternalID,
					Alloc:          a,
					Node:           "n",
					AccessMode:     volume.MultiNodeMultiWriter,
					AttachmentMode: volume.FileSystem,
					State:          st,
					Epoch:          someEpoch,
				})
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

func entryOf(
	key volume.StagingKey, staging volume.Presence, pubs ...volume.InventoryPublication,
) volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey:   key,
		Volume:       volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume("v" + key.ExternalID[1:])},
		Staging:      staging,
		Publications: pubs,
	}
}

func report(t *testing.T, c *localstate.Cluster, r *wire.InventoryReport) *wire.InventoryReply {
	t.Helper()
	return c.Must(t, &fsm.InventoryApply{
		Node:       "n",
		Full:       r.Full,
		AllocIndex: r.At.Index,
		Prev:       r.Prev,
		Entries:    r.Entries,
	}).(*wire.InventoryReply)
}

// TestAFullReportDropsWhatItDoesNotName: a node reported a want and lost it in a crash. Its next report is whole; what
// that does not name is gone, and the claims that were released end. A part of a report says nothing of what it lacks,
// and a report that was delayed changes nothing.
func TestAFullReportDropsWhatItDoesNotName(t *testing.T) {
	c := localstate.New(t)
	keys := withClaims(t, c, volume.Releasing, "a")
	claimed := func() (n int) {
		for range c.Store.Snapshot().Claims(nil) {
			n++
		}
		return n
	}
	want := volume.InventoryPublication{Alloc: "a", Epoch: someEpoch, Wanted: true}
	first := report(t, c,
		&wire.InventoryReport{Full: true, At: lineage.Point{Index: 1}, Entries: []volume.InventoryEntry{
			entryOf(keys[0], volume.Absent, want), entryOf(keys[1], volume.Absent, want)}})
	if part := report(t, c, &wire.InventoryReport{At: lineage.Point{Index: 1}, Prev: first.Head}); part.Stale ||
		claimed() != 2 {
		t.Errorf("after a report of nothing new: %+v, %d claims", part, claimed())
	}
	late := report(t, c, &wire.InventoryReport{Full: true, At: lineage.Point{Index: 1}, Prev: first.Head})
	if !late.Stale || claimed() != 2 {
		t.Errorf("after a report that was delayed: %+v, %d claims", late, claimed())
	}
	// The node that comes back does not know the newest report; it learns it by being refused.
	begin := report(t, c, &wire.InventoryReport{Full: true, At: lineage.Point{Index: 1}})
	whole := report(t, c,
		&wire.InventoryReport{
			Full:    true,
			At:      lineage.Point{Index: 1},
			Prev:    begin.Head,
			Entries: []volume.InventoryEntry{entryOf(keys[1], volume.Absent, want)},
		})
	if !begin.Stale || whole.Stale || claimed() != 1 {
		t.Errorf("after the full report: %+v, %+v, %d claims", begin, whole, claimed())
	}
	quiet := report(t, c,
		&wire.InventoryReport{
			At:      lineage.Point{Index: 1},
			Prev:    whole.Head,
			Entries: []volume.InventoryEntry{entryOf(keys[1], volume.Absent)},
		})
	if len(quiet.Acked) != 1 || claimed() != 0 {
		t.Errorf("after the quiet report: %+v, %d claims", quiet, claimed())
	}
}

// TestTheStandInForTheServersActsAsTheyDo gives random reports to the replicated state and to the stand-in that the
// tests of nodes report to.
func TestTheStandInForTheServersActsAsTheyDo(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c, standIn := localstate.New(t), inventory.New()
		keys := withClaims(t, c, volume.Held, "a", "b")
		heads := []([2]uint64){{0, 0}} // the same report's heads: real, stand-in
		for range 30 {
			if rng.IntN(10) == 0 {
				pub := volume.PublicationKey{StagingKey: keys[rng.IntN(2)], Alloc: []ids.Alloc{"a", "b"}[rng.IntN(2)]}
				id := entryOf(pub.StagingKey, volume.Absent).Volume
				if c.Must(t,
					&fsm.ClaimProof{
						Claim: volume.ClaimKey{Volume: id, Alloc: pub.Alloc},
						Epoch: someEpoch,
						Proof: volume.ProofAttested,
					}).(bool) {
					standIn.End(pub, someEpoch)
				}
				continue
			}
			r := randomReport(rng, keys)
			prev := heads[max(0, len(heads)-1-rng.IntN(5)/4)] // now and then not the newest
			r.Prev = prev[0]
			real := report(t, c, r)
			r.Prev = prev[1]
			other, err := standIn.SendInventory(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if real.Stale != other.Stale || !reflect.DeepEqual(real.Acked, other.Acked) ||
				!reflect.DeepEqual(real.Void, other.Void) {
				t.Fatalf("seed %d: to %+v the servers answer %+v, the stand-in %+v", seed, r, real, other)
			}
			if !real.Stale {
				heads = append(heads, [2]uint64{real.Head, other.Head})
			}
			if a, b := believed(c),
				standIn.Entries(); !maps.EqualFunc(a, byKey(b), func(x, y volume.InventoryEntry) bool {
				return reflect.DeepEqual(x, y)
			}) {
				t.Fatalf("seed %d: after %+v the servers believe in %+v, the stand-in in %+v", seed, r, a, b)
			}
		}
	}
}

func randomReport(rng *rand.Rand, keys []volume.StagingKey) *wire.InventoryReport {
	r := &wire.InventoryReport{Full: rng.IntN(4) == 0, At: lineage.Point{Index: 1}}
	presences := []volume.Presence{volume.Absent, volume.Absent, volume.Uncertain, volume.Present}
	for _, key := range keys {
		if rng.IntN(2) == 0 {
			continue
		}
		var pubs []volume.InventoryPublication
		for _, a := range []ids.Alloc{"a", "b"} {
			if rng.IntN(3) == 0 {
				pubs = append(pubs,
					volume.InventoryPublication{
						Alloc:    a,
						Epoch:    someEpoch,
						Wanted:   rng.IntN(2) == 0,
						Presence: presences[rng.IntN(4)],
					})
			}
		}
		r.Entries = append(r.Entries, entryOf(key, presences[rng.IntN(4)], pubs...))
	}
	return r
}

func believed(c *localstate.Cluster) map[volume.StagingKey]volume.InventoryEntry {
	out := map[volume.StagingKey]volume.InventoryEntry{}
	for i := range c.Store.Snapshot().InventoryOf(nil, "n") {
		out[i.Entry.StagingKey] = i.Entry
	}
	return out
}

func byKey(es []volume.InventoryEntry) map[volume.StagingKey]volume.InventoryEntry {
	out := map[volume.StagingKey]volume.InventoryEntry{}
	for _, e := range es {
		out[e.StagingKey] = e
	}
	return out
}

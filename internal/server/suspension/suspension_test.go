package suspension_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/testkit/localstate"
)

var (
	disk  = volume.ID{Namespace: ids.DefaultNamespace, ID: "disk"}
	vol   = volume.StagingKey{Plugin: "p", ExternalID: "x"}
	other = volume.ID{Namespace: ids.DefaultNamespace, ID: "other"}
)

// held is a state in which node n has the volume for alloc a, which has a claim of it.
func held(t *testing.T, also ...func(tx *state.Tx)) *localstate.Cluster {
	t.Helper()
	c := localstate.New(t)
	write(t, c, func(tx *state.Tx) {
		v := &volume.Volume{ID: disk, UID: "u"}
		v.Spec.Plugin, v.Status.ExternalID = vol.Plugin, vol.ExternalID
		v.Spec.Capabilities = []volume.Capability{{AccessMode: volume.SingleNodeWriter}}
		tx.PutVolume(v)
		tx.PutNode(&node.Node{ID: "n", Status: node.StatusReady})
		claims("a", disk, "n")(tx)
		published(volume.Present)(tx)
	})
	for _, change := range also {
		write(t, c, change)
	}
	return c
}

func write(t *testing.T, c *localstate.Cluster, change func(tx *state.Tx)) {
	t.Helper()
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error { change(tx); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func claims(id ids.Alloc, of volume.ID, on ids.Node) func(*state.Tx) {
	return func(tx *state.Tx) {
		external := vol.ExternalID
		if of == other {
			external = "y"
		}
		tx.PutClaim(&volume.Claim{
			Volume:     of,
			Plugin:     "p",
			ExternalID: external,
			Alloc:      id,
			Node:       on,
			State:      volume.Held,
		})
	}
}

func claimEnds(tx *state.Tx) { tx.DeleteClaim(volume.ClaimKey{Volume: disk, Alloc: "a"}) }

// published has the node report the volume at alloc a alone, not staged.
func published(is volume.Presence) func(*state.Tx) {
	return func(tx *state.Tx) {
		tx.PutInventoryEntry("n", volume.InventoryEntry{StagingKey: vol, Volume: disk,
			Publications: []volume.InventoryPublication{{Alloc: "a", Presence: is}}})
	}
}

// staged has the node report the volume at no alloc.
func staged(tx *state.Tx) {
	tx.PutInventoryEntry("n", volume.InventoryEntry{StagingKey: vol, Volume: disk, Staging: volume.Present})
}

func unnamed(tx *state.Tx) {
	dir := ids.Segment("p")
	tx.PutInventoryHead(&state.InventoryHead{Node: "n", Unknown: []volume.UnknownMount{{
		Path: "/data/csi/" + dir + "/" + volume.StagingTail(vol.ExternalID),
		Dir:  dir,
	}}})
}

func down(tx *state.Tx) { tx.PutNode(&node.Node{ID: "n", Status: node.StatusDown}) }
func up(tx *state.Tx)   { tx.PutNode(&node.Node{ID: "n", Status: node.StatusReady}) }

// evidence of a node stands against the state.
func evidence(tx *state.Tx) {
	tx.PutEvidence(&recovery.Evidence{Node: "n", At: tx.Point(nil), Relation: lineage.Forked})
}

func doubted(tx *state.Tx) {
	tx.PutSession(&node.Session{Node: "n", OtherBoot: &node.OtherBoot{Index: 1}})
}

// restored is a state after a restore of which this node has yet to report.
func restored(tx *state.Tx) {
	tx.PutRecovery(&recovery.Record{Whole: true, Nodes: []recovery.Node{{ID: "n"}}})
}

// TestWhoWaitsForAnAnswerHearsOfAnother: whatever makes another answer of one that was given wakes who was given it.
func TestWhoWaitsForAnAnswerHearsOfAnother(t *testing.T) {
	for name, c := range map[string]struct {
		given  []func(*state.Tx)
		change func(*state.Tx)
	}{
		"a restore": {nil, restored},
		"what a node holds for an alloc": {
			[]func(*state.Tx){claimEnds, published(volume.Absent)},
			published(volume.Present),
		},
		"the claim of an alloc":                  {nil, claimEnds},
		"the claim of a node that has it staged": {[]func(*state.Tx){staged}, claimEnds},
		"evidence against the state":             {[]func(*state.Tx){claimEnds}, evidence},
		"a claim, beside such evidence":          {[]func(*state.Tx){evidence}, claimEnds},
		"what that node holds": {
			[]func(*state.Tx){claimEnds, published(volume.Absent), evidence},
			published(volume.Present),
		},
		"a doubt about that node":                  {[]func(*state.Tx){evidence}, doubted},
		"a mount without a name":                   {nil, unnamed},
		"the end of the node with such a mount":    {[]func(*state.Tx){unnamed}, down},
		"the return of the node with such a mount": {[]func(*state.Tx){unnamed, down}, up},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := held(t, c.given...)
				s := cl.Store.Snapshot()
				v := s.Volume(nil, disk)
				var given []answer
				for what, ask := range questions {
					w := state.NewWatch()
					given = append(given, answer{what, w, ask(s, w, v), ask})
				}
				write(t, cl, c.change)
				others := 0
				for _, g := range given {
					if g.ask(cl.Store.Snapshot(), nil, v) != g.is {
						others++
						wakes(t, g.w, g.what)
					}
				}
				if others == 0 {
					t.Errorf("no answer is another: %+v", given)
				}
			})
		})
	}
}

// answer is what was given to somebody who waits for another.
type answer struct {
	what string
	w    *state.Watch
	is   string
	ask  func(*state.Snap, *state.Watch, *volume.Volume) string
}

var questions = map[string]func(*state.Snap, *state.Watch, *volume.Volume) string{
	"calls": func(s *state.Snap, w *state.Watch, v *volume.Volume) string {
		return suspension.Calls(s, w, v.Staging()).String()
	},
	"claims": func(s *state.Snap, w *state.Watch, v *volume.Volume) string {
		return suspension.Claims(s, w, v).String()
	},
	"destruction": func(s *state.Snap, w *state.Watch, v *volume.Volume) string {
		return suspension.Destruction(s, w, v.Staging()).String()
	},
}

// wakes fails, at once in a bubble, when a watch wakes nobody.
func wakes(t *testing.T, w *state.Watch, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.Wait(ctx); err != nil {
		t.Errorf("%s: nobody is woken: %v", what, err)
	}
}

// TestWhoKeepsManyVolumesHearsOfAll: whoever keeps all volumes is woken by what may concern any of them.
func TestWhoKeepsManyVolumesHearsOfAll(t *testing.T) {
	for name, change := range map[string]func(*state.Tx){"a restore": restored, "evidence": evidence} {
		synctest.Test(t, func(t *testing.T) {
			cl := held(t)
			w := state.NewWatch()
			if suspension.Any(cl.Store.Snapshot(), w) {
				t.Fatalf("%s: there is something before", name)
			}
			write(t, cl, change)
			if !suspension.Any(cl.Store.Snapshot(), nil) {
				t.Errorf("%s: there is nothing", name)
			}
			wakes(t, w, name)
		})
	}
}

// TestWhatHoldsUpAClaim: what a node holds holds up the claims of a volume unless a claim of that alloc, or on that
// node, says so too; a volume that many write to by its nature nobody holds up.
func TestWhatHoldsUpAClaim(t *testing.T) {
	type changes = []func(*state.Tx)
	many := func(mode volume.AccessMode) func(tx *state.Tx) {
		return func(tx *state.Tx) {
			v := *tx.Volume(nil, disk)
			v.Spec.Capabilities = []volume.Capability{{AccessMode: mode}}
			tx.PutVolume(&v)
		}
	}
	for name, c := range map[string]struct {
		given changes
		waits bool
	}{
		"its alloc has a claim":              {nil, false},
		"its alloc has none":                 {changes{claimEnds}, true},
		"its alloc has one of another":       {changes{claimEnds, claims("a", other, "n")}, true},
		"another alloc there has one":        {changes{claimEnds, claims("b", disk, "n")}, true},
		"nothing is mounted any more":        {changes{claimEnds, published(volume.Absent)}, false},
		"staged, and a claim there":          {changes{staged}, false},
		"staged, and no claim":               {changes{staged, claimEnds}, true},
		"staged, and a claim elsewhere":      {changes{staged, claimEnds, claims("b", disk, "m")}, true},
		"many write, and its alloc has none": {changes{claimEnds, many(volume.MultiNodeMultiWriter)}, false},
		"many read, and its alloc has none":  {changes{claimEnds, many(volume.MultiNodeReader)}, false},
		"one writes of many, and its alloc has none": {
			changes{claimEnds, many(volume.MultiNodeSingleWriter)}, true},
	} {
		s := held(t, c.given...).Store.Snapshot()
		if why := suspension.Claims(s, nil, s.Volume(nil, disk)); (why != nil) != c.waits {
			t.Errorf("%s: %q", name, why)
		}
	}
}

package fsm_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

func mark(t *testing.T, c *localstate.Cluster, id string) {
	t.Helper()
	c.Must(t, &fsm.LineageMark{Mark: id})
}

func TestEachLeadershipDiffersFromEveryOther(t *testing.T) {
	c := localstate.New(t)
	mark(t, c, "one")
	first := c.Store.Snapshot().Point(nil)
	register(t, c, aJob("web"))
	later := c.Store.Snapshot().Point(nil)
	mark(t, c, "two")
	register(t, c, aJob("db"))
	s := c.Store.Snapshot()
	now := s.Point(nil)
	if now.Mark != "two" || now.Index <= later.Index || s.MarkIndex() != later.Index+1 {
		t.Fatalf("now %+v, the leadership began at %d", now, s.MarkIndex())
	}
	for _, seen := range []lineage.Point{first, later, now} {
		if got := s.Relate(seen); got != lineage.Continues {
			t.Errorf("%+v: %v", seen, got)
		}
	}
	longer := lineage.Point{Incarnation: now.Incarnation, Mark: "one", Index: s.MarkIndex()}
	if got := s.Relate(longer); got != lineage.Forked {
		t.Errorf("the first leadership did not last so long: %v", got)
	}
	if _, _, err := c.Propose(t.Context(), &fsm.LineageMark{Mark: "one"}); !fault.Has(err, fault.Invalid) {
		t.Errorf("a mark was used twice: %v", err)
	}
}

// A copy of the log that ends before a claim goes on with entries of its own at the indexes that the claim had: what
// was seen there in the other history is no part of this one.
func TestIndexesBetweenTheLastCommandAndTheMarkBelongToNobody(t *testing.T) {
	c := localstate.New(t)
	mark(t, c, "one")
	last := c.Store.Snapshot().Point(nil)
	c.Skip(2) // an election leaves entries that are no commands
	mark(t, c, "two")
	s := c.Store.Snapshot()
	if got := s.Relate(last); got != lineage.Continues {
		t.Errorf("the last command: %v", got)
	}
	between := lineage.Point{Incarnation: last.Incarnation, Mark: "one", Index: last.Index + 1}
	if got := s.Relate(between); got != lineage.Forked {
		t.Errorf("a command of another history: %v", got)
	}
}

func TestTheChainOfMarksIsBounded(t *testing.T) {
	c := localstate.New(t)
	mark(t, c, "a")
	mark(t, c, "b")
	mark(t, c, "c")
	st := c.Store.Snapshot().Stamp()
	if err := c.Store.Write(st, func(tx *state.Tx) error { tx.TrimLineageMarks(2); return nil }); err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	if s.LineageMark("a") != nil || s.LineageMark("b") == nil || s.LineageMark("c") == nil {
		t.Error("not the oldest mark was forgotten")
	}
	if got := s.Relate(lineage.Point{Incarnation: s.Point(nil).Incarnation, Mark: "a", Index: 2}); got !=
		lineage.Forked {
		t.Errorf("what is not known any more counts as %v", got)
	}
}

// held is a claimed volume and how its node reports it.
type held struct {
	c     *localstate.Cluster
	node  ids.Node
	alloc ids.Alloc
	vol   volume.ID
	key   volume.StagingKey
	epoch volume.Epoch
	prev  uint64
}

func claimed(t *testing.T) *held {
	t.Helper()
	c := localstate.New(t)
	mark(t, c, "one")
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	v := withVolume(t, c, volume.SingleNodeWriter)
	register(t, c, aJob("db"))
	a := anAlloc(c, "db", n.ID)
	c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{a},
		Claims: []*volume.Claim{aClaim(v, a, volume.SingleNodeWriter, volume.Held)},
	})
	s := c.Store.Snapshot()
	rec := s.Volume(nil, v)
	return &held{
		c:     c,
		node:  n.ID,
		alloc: a.ID,
		vol:   v,
		key:   volume.StagingKey{Plugin: rec.Spec.Plugin, ExternalID: rec.Status.ExternalID},
		epoch: s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: a.ID}).Epoch,
	}
}

// report says that the publication exists and is wanted, received at a point; empty: the node has nothing.
func (h *held) report(t *testing.T, received lineage.Point, empty bool) *wire.InventoryReply {
	t.Helper()
	cmd := &fsm.InventoryApply{Node: h.node, Full: true, AllocIndex: h.epoch.Index, Prev: h.prev}
	if !empty {
		cmd.Entries = []volume.InventoryEntry{{
			StagingKey: h.key,
			Volume:     h.vol,
			Staging:    volume.Present,
			Publications: []volume.InventoryPublication{
				{Alloc: h.alloc, Epoch: h.epoch, Presence: volume.Present, Wanted: true, Received: received}},
		}}
	}
	r := h.c.Must(t, cmd).(*wire.InventoryReply)
	if h.prev = r.Head; r.Stale {
		return h.report(t, received, empty)
	}
	return r
}

// forget removes the claim without a proof, as a state that never knew it would lack it.
func (h *held) forget(t *testing.T) {
	t.Helper()
	err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.DeleteClaim(volume.ClaimKey{Volume: h.vol, Alloc: h.alloc})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAClaimIsVoidOnlyIfTheStateKnewItOrItEndedByProof(t *testing.T) {
	at := func(h *held) lineage.Point { return h.c.Store.Snapshot().Point(nil) }
	elsewhere := func(h *held) lineage.Point {
		return lineage.Point{Incarnation: h.epoch.Incarnation, Mark: "of another history", Index: h.epoch.Index + 50}
	}
	before := func(*held) lineage.Point { return lineage.Point{} }
	proven := func(t *testing.T, h *held) {
		t.Helper()
		h.c.Must(t, &fsm.ClaimProof{
			Claim:  volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
			Epoch:  h.epoch,
			Proof:  volume.ProofFenced,
			Reason: "it burnt",
		})
	}
	cases := []struct {
		what     string
		end      func(*testing.T, *held)
		received func(*held) lineage.Point
		void     int
	}{
		{"it is there", func(*testing.T, *held) {}, at, 0},
		{"it is gone from a state that knew it", func(t *testing.T, h *held) { h.forget(t) }, at, 1},
		{"it is gone from a state that never knew it", func(t *testing.T, h *held) { h.forget(t) }, elsewhere, 0},
		{"it is gone, from before there were marks", func(t *testing.T, h *held) { h.forget(t) }, before, 1},
		{"it is gone, from before there were marks, of another incarnation", func(t *testing.T, h *held) {
			h.forget(t)
			h.epoch.Incarnation = "another"
		}, before, 0},
		{"it is gone, from before there were marks, of an index that the state has not reached",
			func(t *testing.T, h *held) {
				h.forget(t)
				h.epoch.Index += 1000
			}, before, 0},
		{"it ended by proof", proven, at, 1},
		{"it ended by proof, the node saw another history since", proven, elsewhere, 1},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			h := claimed(t)
			point := tc.received(h)
			tc.end(t, h)
			r := h.report(t, point, false)
			if len(r.Void) != tc.void {
				t.Fatalf("void: %+v", r.Void)
			}
			if tc.void == 1 &&
				(r.Void[0].Alloc != h.alloc || r.Void[0].Epoch != h.epoch || r.Void[0].StagingKey != h.key) {
				t.Errorf("void: %+v", r.Void[0])
			}
		})
	}
}

func TestAProofStaysUntilTheNodeHoldsNothingOfTheClaim(t *testing.T) {
	h := claimed(t)
	received := h.c.Store.Snapshot().Point(nil)
	h.report(t, received, false)
	h.c.Must(t, &fsm.ClaimProof{
		Claim:  volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch:  h.epoch,
		Proof:  volume.ProofFenced,
		Reason: "it burnt",
	})
	proofs := func() (out []*volume.ClaimProof) {
		for p := range h.c.Store.Snapshot().ClaimProofsOf(nil, h.node) {
			out = append(out, p)
		}
		return out
	}
	if p := proofs(); len(p) != 1 || p[0].Proof != volume.ProofFenced || p[0].Reason != "it burnt" ||
		p[0].Volume != h.vol || p[0].Time.IsZero() {
		t.Fatalf("proofs %+v", p)
	}
	h.report(t, received, false)
	if len(proofs()) != 1 {
		t.Fatal("the proof is gone while the node still holds the publication")
	}
	h.report(t, received, true)
	if p := proofs(); len(p) != 0 {
		t.Fatalf("proofs %+v", p)
	}

	again := claimed(t)
	again.c.Must(t,
		&fsm.ClaimProof{
			Claim:  volume.ClaimKey{Volume: again.vol, Alloc: again.alloc},
			Epoch:  again.epoch,
			Proof:  volume.ProofFenced,
			Reason: "it burnt",
		})
	again.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{again.node}, Status: node.StatusDown})
	again.c.Must(t, &collection.Collect{Nodes: []ids.Node{again.node}})
	for p := range again.c.Store.Snapshot().ClaimProofsOf(nil, again.node) {
		t.Errorf("the proof of a node that is forgotten stays: %+v", p)
	}
}

func TestANodeIsFoundByTheProvidersIdOfAVolume(t *testing.T) {
	h := claimed(t)
	h.report(t, lineage.Point{}, false)
	n := 0
	for i := range h.c.Store.Snapshot().InventoriesOf(nil, h.key) {
		if n++; i.Node != h.node {
			t.Errorf("found %s", i.Node)
		}
	}
	for i := range h.c.Store.Snapshot().InventoriesOf(nil,
		volume.StagingKey{Plugin: h.key.Plugin, ExternalID: h.key.ExternalID + "x"}) {
		t.Errorf("another external id finds %+v", i)
	}
	if n != 1 {
		t.Errorf("%d", n)
	}
}

package planner

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
)

// end has an alloc stop and end, as its node reports it.
func (b *bench) end(id ids.Alloc) {
	b.t.Helper()
	a := b.Store.Snapshot().Alloc(nil, id)
	b.Must(b.t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: id}}})
	b.Must(b.t, &fsm.AllocClientUpdate{
		Seed:   ids.New(),
		Allocs: []*alloc.Alloc{{ID: id, Node: a.Node, ClientStatus: alloc.ClientComplete}},
	})
}

// Given a plan from a state in which a node was ready and an alloc ran, when neither does any more, then what depends
// on them is rejected by name.
func TestWhatChangedMeanwhileIsRejected(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		b.submit(plan(place(b.alloc("a", "n1", 1))))
		b.Must(t, &fsm.NodeEligibility{Node: "n2", Eligibility: node.Ineligible, Seed: ids.New()})
		b.end("a")
		p := plan(place(b.alloc("b", "n2", 1)), place(b.alloc("c", "n1", 1)))
		changed := *b.Store.Snapshot().Alloc(nil, "a")
		p.InPlace = []*alloc.Alloc{&changed}
		r := b.submit(p)
		b.rejected(r, "b", "not ready any more")
		b.rejected(r, "a", "ended meanwhile")
		if len(r.Rejected) != 2 || b.Store.Snapshot().Alloc(nil, "c") == nil {
			t.Errorf("%+v", r)
		}
	})
}

// Given two placements of one plan that want the same volume for writing, then the second is rejected.
func TestOnePlanGivesAVolumeOnce(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		v := b.volume("v")
		r := b.submit(plan(place(b.alloc("a", "n1", 1), claim(v, volume.Held)),
			place(b.alloc("b", "n2", 1), claim(v, volume.Held))))
		b.rejected(r, "b", "holds it on node n1")
		if len(r.Rejected) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// Given a stop because the node is lost, and one for another reason, then only the first alloc is shown as lost.
func TestAStopTellsThatTheAllocIsLost(t *testing.T) {
	atBench(t, nil, func(t *testing.T, b *bench) {
		b.submit(plan(place(b.alloc("a", "n1", 1)), place(b.alloc("b", "n2", 1))))
		p := plan()
		p.Stop = []scheduler.Stop{{Alloc: "a", Node: "n1", Lost: true}, {Alloc: "b", Node: "n2"}}
		b.submit(p)
		s := b.Store.Snapshot()
		if a, c := s.Alloc(nil, "a"), s.Alloc(nil, "b"); a.ClientStatus != alloc.ClientLost ||
			c.ClientStatus == alloc.ClientLost || !c.ServerTerminal() {
			t.Errorf("a is %s, b is %s (%s)", a.ClientStatus, c.ClientStatus, c.DesiredStatus)
		}
	})
}

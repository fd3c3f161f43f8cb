package fsm_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestAnAllocIsMovedAsWasAskedLast: given an alloc that somebody asks to move, to reschedule or to move without delay,
// then it is shown as asked for last; a delay that was given up once stays given up, because its end may have begun;
// and what has ended stays as it is.
func TestAnAllocIsMovedAsWasAskedLast(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n, Seed: "r"})
	register(t, c, aJob("web"))
	a := anAlloc(c, "web", n.ID)
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	for i, asked := range []struct{ reschedule, hasty, wantReplace, wantHasty bool }{
		{},
		{reschedule: true, wantReplace: true},
		{},
		{hasty: true, wantHasty: true},
		{reschedule: true, wantReplace: true, wantHasty: true},
	} {
		e := c.Must(t, &fsm.AllocMigrate{
			Alloc:           a.ID,
			Reschedule:      asked.reschedule,
			NoShutdownDelay: asked.hasty,
			Seed:            ids.New(),
		}).(*eval.Eval)
		now := c.Store.Snapshot().Alloc(nil, a.ID)
		if !now.Migrate || now.Replace != asked.wantReplace || now.NoShutdownDelay != asked.wantHasty ||
			e.TriggeredBy != eval.TriggerAllocStop {
			t.Errorf("request %d (%+v): migrate %v, replace %v, no delay %v, looked at because of %q", i, asked,
				now.Migrate, now.Replace, now.NoShutdownDelay, e.TriggeredBy)
		}
	}
	c.Must(t, &fsm.AllocClientUpdate{
		Seed:   ids.New(),
		Allocs: []*alloc.Alloc{{ID: a.ID, Node: n.ID, ClientStatus: alloc.ClientComplete}},
	})
	before := c.Store.Snapshot().Alloc(nil, a.ID)
	c.Must(t, &fsm.AllocMigrate{Alloc: a.ID, Seed: ids.New()})
	if after := c.Store.Snapshot().Alloc(nil, a.ID); after.ModifyIndex != before.ModifyIndex {
		t.Errorf("the request changed an alloc that has ended: %+v", after)
	}
}

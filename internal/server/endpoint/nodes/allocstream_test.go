package nodes

import (
	"slices"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func service() *job.Job {
	return &job.Job{
		Namespace:  ids.DefaultNamespace,
		ID:         "db",
		Type:       job.TypeService,
		Priority:   50,
		TaskGroups: []*job.TaskGroup{{Name: "data", Count: 1, Tasks: []*job.Task{{Name: "redis", Driver: "exec"}}}},
	}
}

func TestANodeIsPushedWhatItDoesNotKnowYet(t *testing.T) {
	e, c := endpoints(t)
	n := &node.Node{ID: ids.Node(ids.New()), Name: "n"}
	c.Must(t, &fsm.NodeRegister{Node: n})
	c.Must(t, &fsm.JobRegister{Job: service(), Seed: ids.New()})
	place := func() ids.Alloc {
		j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
		a := &alloc.Alloc{
			ID:             ids.Alloc(ids.New()),
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobCreateIndex: j.CreateIndex,
			JobVersion:     j.Version,
			Node:           n.ID,
		}
		c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
		return a.ID
	}
	sent := pushed{}
	next := func() (changed, gone []ids.Alloc) {
		set, err := sent.next(e.cfg.Store.Snapshot(), state.NewWatch(), n.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range set.Bundles {
			changed = append(changed, b.Alloc.ID)
		}
		return changed, set.Gone
	}
	a := place()
	if got, _ := next(); !slices.Equal(got, []ids.Alloc{a}) {
		t.Errorf("first: %v", got)
	}
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientRunning}}})
	if got, _ := next(); len(got) != 0 {
		t.Errorf("its own report came back: %v", got)
	}
	b := place()
	c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: a}}})
	got, _ := next()
	slices.Sort(got)
	want := []ids.Alloc{a, b}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("a stop and a placement: %v", got)
	}
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientComplete}}})
	c.Must(t, &collection.Collect{Allocs: []ids.Alloc{a}})
	if got, gone := next(); len(got) != 0 || !slices.Equal(gone, []ids.Alloc{a}) {
		t.Errorf("after it was forgotten: %v, gone %v", got, gone)
	}
}

func TestAnEligibilityThatDoesNotExistIsRefused(t *testing.T) {
	e, _ := endpoints(t)
	_, err := e.nodeEligibility(t.Context(), &wire.NodeEligibilityRequest{Node: "none", Eligibility: "maybe"})
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

package gc

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// stopped makes a job that ran once and was stopped, with everything about it ended.
func stopped(t *testing.T, c *localstate.Cluster, id ids.Job) ids.Alloc {
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
	c.Must(t, &fsm.JobRegister{
		Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: id, Type: job.TypeService},
		Seed: ids.New(),
	})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, id)
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            id,
		JobCreateIndex: j.CreateIndex,
		JobVersion:     j.Version,
		Node:           "n",
	}
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	c.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: id, Seed: ids.New()})
	c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: a.ID}}})
	for e := range c.Store.Snapshot().Evals(nil, "") {
		done := *e
		done.Status = eval.StatusComplete
		c.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&done}})
	}
	return a.ID
}

func TestAStoppedJobIsForgottenWhenItsTasksHaveEnded(t *testing.T) {
	c := localstate.New(t)
	gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
	a := stopped(t, c, "web")
	if _, err := gc.Force(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Store.Snapshot().Alloc(nil, a) == nil {
		t.Fatal("an alloc whose node has not said that it ended is gone")
	}
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: "n", ClientStatus: alloc.ClientComplete}}})
	if _, err := gc.Force(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	if s.Alloc(nil, a) != nil || s.Job(nil, ids.DefaultNamespace, "web") != nil {
		t.Error("alloc or job stayed")
	}
	for e := range s.Evals(nil, "") {
		t.Errorf("evaluation %s stayed", e.ID)
	}
}

func TestYoungHistoryStaysUntilItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		ages := Hold(Ages{})
		gc := New(c.Store, c, ages, slog.New(slog.DiscardHandler))
		a := stopped(t, c, "web")
		c.Must(t, &fsm.AllocClientUpdate{
			Allocs: []*alloc.Alloc{{ID: a, Node: "n", ClientStatus: alloc.ClientComplete}},
		})
		collect := func() {
			by, _ := ages.now()
			if _, err := gc.collect(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		}
		collect()
		if c.Store.Snapshot().Alloc(nil, a) == nil {
			t.Error("a young alloc is gone")
		}
		time.Sleep(DefaultAges.Evals)
		collect()
		if c.Store.Snapshot().Alloc(nil, a) != nil {
			t.Error("an old alloc stayed")
		}
		time.Sleep(DefaultAges.Jobs)
		collect()
		if c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web") != nil {
			t.Error("an old job stayed")
		}
	})
}

// Given a collector that runs by long ages, when it is given short ones, then it forgets by them, and looks as often as
// they say.
func TestAgesMayChangeWhileACollectorRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		ages := Hold(Ages{Evals: 90 * time.Hour, Jobs: 90 * time.Hour, Every: 90 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- New(c.Store, c, ages, slog.New(slog.DiscardHandler)).Run(ctx) }()
		a := stopped(t, c, "web")
		c.Must(t, &fsm.AllocClientUpdate{
			Allocs: []*alloc.Alloc{{ID: a, Node: "n", ClientStatus: alloc.ClientComplete}},
		})
		time.Sleep(5 * time.Hour)
		if c.Store.Snapshot().Alloc(nil, a) == nil {
			t.Error("by the long ages the alloc is gone")
		}
		if now := ages.Set(Ages{Evals: time.Minute, Jobs: time.Minute, Every: time.Minute}); now.Nodes != 24*time.Hour {
			t.Errorf("they are %+v", now)
		}
		time.Sleep(2 * time.Minute)
		if s := c.Store.Snapshot(); s.Alloc(nil, a) != nil || s.Job(nil, ids.DefaultNamespace, "web") != nil {
			t.Error("by the short ages alloc or job stayed")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestALiveJobKeepsWhatItCountsOn(t *testing.T) {
	c := localstate.New(t)
	gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
	c.Must(t, &fsm.JobRegister{
		Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: "web", Type: job.TypeService},
		Seed: ids.New(),
	})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	a := &alloc.Alloc{
		ID:             "a",
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		Node:           "n",
	}
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	c.Must(t, &fsm.AllocClientUpdate{
		Seed:   "s",
		Allocs: []*alloc.Alloc{{ID: "a", Node: "n", ClientStatus: alloc.ClientFailed}},
	})
	if _, err := gc.Force(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Store.Snapshot().Alloc(nil, "a") == nil {
		t.Error("a failed alloc that waits for its replacement is gone: nobody would know how often it failed")
	}
	pending := 0
	for range c.Store.Snapshot().Evals(nil, "") {
		pending++
	}
	if pending != 2 {
		t.Errorf("%d evaluations, want those of the registration and of the failure", pending)
	}
}

// Given an alloc that ended on a node which had no record of it, as the node has said, then it goes when its job has
// been stopped. One of a job that lives stays: it is what keeps a batch job from being run twice.
func TestWhatEndedWithoutARecordGoesWithItsJob(t *testing.T) {
	for _, text := range []string{alloc.EndedUnrecorded, alloc.LostInRestore} {
		c := localstate.New(t)
		gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
		a := stopped(t, c, "web")
		lost := &alloc.Alloc{ID: a, Node: "n", ClientStatus: alloc.ClientLost, ClientDescription: text}
		c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{lost}})
		c.Must(t, &fsm.JobRegister{
			Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: "lives", Type: job.TypeBatch},
			Seed: ids.New(),
		})
		j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "lives")
		held := &alloc.Alloc{
			ID:             ids.Alloc(ids.New()),
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobCreateIndex: j.CreateIndex,
			JobVersion:     j.Version,
			Node:           "n",
		}
		c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{held}})
		c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: held.ID}}})
		ended := &alloc.Alloc{ID: held.ID, Node: "n", ClientStatus: alloc.ClientLost, ClientDescription: text}
		c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{ended}})
		if _, err := gc.Force(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := c.Store.Snapshot()
		if s.Alloc(nil, a) != nil || s.Job(nil, ids.DefaultNamespace, "web") != nil {
			t.Errorf("%s: what is over stayed", text)
		}
		if s.Alloc(nil, held.ID) == nil {
			t.Errorf("%s: what holds a job back is gone", text)
		}
	}
}

// What stays keeps the evaluation that made it, and a job is as old as the last that happened to what is of it.
func TestWhatHistoryIsNeededAndHowOldItIs(t *testing.T) {
	c := localstate.New(t)
	at := time.Now().Add(-time.Hour).UnixNano()
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutJob(&job.Job{Namespace: ids.DefaultNamespace, ID: "web", SubmitTime: at})
		for i, id := range []ids.Alloc{"old", "new"} {
			tx.PutAlloc(&alloc.Alloc{
				ID:         id,
				Namespace:  ids.DefaultNamespace,
				Job:        "web",
				Eval:       "e",
				ModifyTime: at + int64(i+1),
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	if got := jobTouched(s, collection.JobName{Namespace: ids.DefaultNamespace, Job: "web"}); got != at+2 {
		t.Errorf("the job was touched %d after it was submitted", got-at)
	}
	for name, test := range map[string]struct {
		eval  ids.Eval
		going []ids.Alloc
		want  bool
	}{
		"both stay":     {"e", nil, true},
		"one stays":     {"e", []ids.Alloc{"old"}, true},
		"both go":       {"e", []ids.Alloc{"old", "new"}, false},
		"made no alloc": {"another", nil, false},
	} {
		going := map[ids.Alloc]bool{}
		for _, id := range test.going {
			going[id] = true
		}
		if got := needed(s, test.eval, going); got != test.want {
			t.Errorf("%s: needed %v", name, got)
		}
	}
}

// Given a node that is down, when a person has everything that is over forgotten, then it goes only where that person
// could purge it: an alloc that is not known to have ended keeps it, also where it counts as lost.
func TestAPersonForgetsNoNodeThatCouldNotBePurged(t *testing.T) {
	c := localstate.New(t)
	gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
	for _, id := range []ids.Node{"runs", "empty"} {
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Name: string(id)}})
	}
	c.Must(t, &fsm.JobRegister{
		Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: "web", Type: job.TypeService},
		Seed: ids.New(),
	})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	a := &alloc.Alloc{
		ID:             "a",
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		Node:           "runs",
	}
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	down := []ids.Node{"runs", "empty"}
	c.Must(t, &fsm.NodeStatus{Nodes: down, Status: node.StatusDown, Seed: ids.New()})
	c.Must(t, &fsm.AllocClientUpdate{
		Seed:   "s",
		Allocs: []*alloc.Alloc{{ID: "a", Node: "runs", ClientStatus: alloc.ClientLost}},
	})
	if _, err := gc.Force(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	if s.Node(nil, "runs") == nil || s.Alloc(nil, "a") == nil {
		t.Error("a node is forgotten with what may run on it")
	}
	if s.Node(nil, "empty") != nil {
		t.Error("a node that holds nothing stays")
	}
}

package gc

import (
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
	"berth/internal/server/fsm/launches"
	"berth/internal/testkit/localstate"
)

// launcher is a state with a job that launches others, and a collector.
type launcher struct {
	*localstate.Cluster
	t    *testing.T
	gc   *Collector
	ages *Held
}

func newLauncher(t *testing.T, j *job.Job, most Most) *launcher {
	c := localstate.New(t)
	ages := Hold(Ages{Most: most})
	j.Namespace, j.ID = ids.DefaultNamespace, "p"
	j.Type, j.Priority = job.TypeBatch, 50
	j.TaskGroups = []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}}
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
	c.Must(t, &fsm.JobRegister{Job: j, Seed: ids.New()})
	return &launcher{
		Cluster: c,
		t:       t,
		ages:    ages,
		gc:      New(c.Store, c, ages, slog.New(slog.DiscardHandler)),
	}
}

// dispatch launches a child that runs, or ends at once.
func (l *launcher) dispatch(ends bool) ids.Job {
	l.t.Helper()
	out := l.Must(l.t, &launches.Dispatch{Namespace: ids.DefaultNamespace, Job: "p", Seed: ids.New()})
	l.run(out.(*launches.Launched), ends)
	return out.(*launches.Launched).Child.ID
}

func (l *launcher) run(of *launches.Launched, ends bool) {
	l.t.Helper()
	j := l.job(of.Child.ID)
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		Node:           "n",
		Eval:           of.Eval.ID,
	}
	l.Must(l.t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	done := *l.Store.Snapshot().Eval(nil, of.Eval.ID)
	done.Status = eval.StatusComplete
	l.Must(l.t, &fsm.EvalUpdate{Evals: []*eval.Eval{&done}})
	status := alloc.ClientRunning
	if ends {
		status = alloc.ClientComplete
	}
	l.Must(l.t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a.ID, Node: "n", ClientStatus: status}}})
}

func (l *launcher) job(id ids.Job) *job.Job {
	return l.Store.Snapshot().Job(nil, ids.DefaultNamespace, id)
}

func (l *launcher) collect() {
	l.t.Helper()
	by, _ := l.ages.now()
	if _, err := l.gc.collect(l.t.Context(), by); err != nil {
		l.t.Fatal(err)
	}
}

// left counts what is kept beside nodes.
func (l *launcher) left() (jobs, allocs, evals int) {
	s := l.Store.Snapshot()
	for range s.Jobs(nil, ids.DefaultNamespace, "") {
		jobs++
	}
	for range s.Allocs(nil, "") {
		allocs++
	}
	for range s.Evals(nil, "") {
		evals++
	}
	return jobs, allocs, evals
}

// Given a job that was dispatched several times, when what was launched has ended and job_gc_threshold has passed, then
// it is forgotten with its allocs and its evaluations, what runs stays however old it is, and so does the job that
// launches, until it is stopped and nothing of it is left.
func TestDispatchedChildrenAreForgottenWithTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLauncher(t, &job.Job{ParameterizedJob: &job.ParameterizedJobConfig{}}, Most{})
		old, runs := l.dispatch(true), l.dispatch(false)
		time.Sleep(DefaultAges.Jobs / 2)
		young := l.dispatch(true)
		l.collect()
		for _, id := range []ids.Job{old, runs, young} {
			if l.job(id) == nil {
				t.Errorf("%s is gone before its time", id)
			}
		}
		time.Sleep(DefaultAges.Jobs/2 + time.Second)
		l.collect()
		if l.job(old) != nil || l.job(young) == nil || l.job(runs) == nil || l.job("p") == nil {
			t.Errorf("after its time, the old one is there: %t; the young %t, what runs %t, the parent %t",
				l.job(old) != nil, l.job(young) != nil, l.job(runs) != nil, l.job("p") != nil)
		}
		if jobs, allocs, evals := l.left(); jobs != 3 || allocs != 2 || evals != 2 {
			t.Errorf("%d jobs, %d allocs and %d evaluations are left of two and their parent", jobs, allocs, evals)
		}
		l.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "p", Seed: ids.New()})
		time.Sleep(DefaultAges.Jobs)
		l.collect()
		if l.job(runs) == nil || l.job("p") == nil {
			t.Error("a job is gone of which something runs")
		}
		for a := range l.Store.Snapshot().Allocs(nil, "") {
			l.Must(t, &fsm.AllocClientUpdate{
				Allocs: []*alloc.Alloc{{ID: a.ID, Node: "n", ClientStatus: alloc.ClientComplete}},
			})
		}
		time.Sleep(DefaultAges.Jobs)
		l.collect()
		if jobs, allocs, _ := l.left(); jobs != 0 || allocs != 0 {
			t.Errorf("%d jobs and %d allocs are left of what is over", jobs, allocs)
		}
	})
}

// Given a crowd of what one job launched, when it is more than is kept, then the oldest go, however young, and what
// they were launched by stays.
func TestACrowdOfChildrenIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, many = 5, 20
		l := newLauncher(t, &job.Job{ParameterizedJob: &job.ParameterizedJobConfig{}}, Most{Jobs: most})
		var all []ids.Job
		for range many {
			all = append(all, l.dispatch(true))
			time.Sleep(time.Second)
		}
		l.collect()
		for i, id := range all {
			if want := i >= many-most; (l.job(id) != nil) != want {
				t.Errorf("the child launched as number %d is there: %t, want %t", i, !want, want)
			}
		}
		if jobs, allocs, _ := l.left(); jobs != most+1 || allocs != most {
			t.Errorf("%d jobs and %d allocs are left", jobs, allocs)
		}
	})
}

// Given a job launched by the clock, when what it launched is forgotten, then it stays, and so does the time of its
// last launch: nothing is launched a second time because nobody remembers the first.
func TestWhatTheClockLaunchedIsForgottenAndNotLaunchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLauncher(t, &job.Job{Periodic: &job.PeriodicConfig{
			Enabled:  true,
			Specs:    []string{"* * * * *"},
			TimeZone: "UTC",
		}}, Most{})
		due := time.Now().Add(time.Minute).Unix()
		launch := func() *launches.Launched {
			return l.Must(t, &launches.Launch{
				Namespace:      ids.DefaultNamespace,
				Job:            "p",
				JobModifyIndex: l.job("p").JobModifyIndex,
				Due:            due,
				Seed:           ids.New(),
			}).(*launches.Launched)
		}
		first := launch()
		l.run(first, true)
		time.Sleep(DefaultAges.Jobs)
		l.collect()
		if l.job(first.Child.ID) != nil || l.job("p") == nil || l.job("p").LastLaunch != due {
			t.Errorf("the child is there: %t, the parent %+v", l.job(first.Child.ID) != nil, l.job("p"))
		}
		if again := launch(); again.Child != nil {
			t.Errorf("%s was launched again", again.Child.ID)
		}
	})
}

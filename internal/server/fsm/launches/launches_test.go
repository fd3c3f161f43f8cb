package launches_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/launches"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/testkit/localstate"
)

func parent(edit func(*job.Job)) *job.Job {
	j := &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        "p",
		Name:      "p",
		Type:      job.TypeBatch,
		Priority:  50,
		NodePool:  "default",
		Meta:      map[string]string{"kept": "1", "given": "old"},
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{Name: "t", Driver: "exec"}},
		}},
	}
	edit(j)
	return j
}

func clocked(j *job.Job) {
	j.Periodic = &job.PeriodicConfig{Enabled: true, Specs: []string{"* * * * *"}, TimeZone: "UTC"}
}

func parameterized(j *job.Job) {
	j.ParameterizedJob = &job.ParameterizedJobConfig{
		Payload:      job.PayloadOptional,
		MetaRequired: []string{"given"},
		MetaOptional: []string{"more"},
	}
}

func cluster(t testing.TB, edit func(*job.Job)) (*localstate.Cluster, *job.Job) {
	t.Helper()
	c := localstate.New(t)
	done := c.Must(t, &fsm.JobRegister{Job: parent(edit), Seed: "s"}).(*fsm.JobRegistered)
	if done.Eval != nil {
		t.Fatal("a job that launches others is placed itself")
	}
	return c, c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "p")
}

func children(c *localstate.Cluster, j *job.Job) (out []ids.Job) {
	for child := range c.Store.Snapshot().Children(nil, j) {
		out = append(out, child.ID)
	}
	return out
}

// Given a periodic job, when two leaders launch it for one time, then one child is there, and the launch is written
// down with it; a later time launches another one, and an earlier one none.
func TestALaunchHappensOnce(t *testing.T) {
	c, j := cluster(t, clocked)
	launch := func(due int64, seed string) *launches.Launched {
		return c.Must(t, &launches.Launch{
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobModifyIndex: j.JobModifyIndex,
			Due:            due,
			Seed:           seed,
		}).(*launches.Launched)
	}
	first := launch(600, "a")
	if first.Child == nil || first.Child.ID != "p/periodic-600" || first.Child.ParentID != "p" ||
		first.Eval.TriggeredBy != "periodic-job" || first.Child.Launches() {
		t.Fatalf("%+v", first)
	}
	if again := launch(600, "b"); again.Child != nil {
		t.Error("launched twice")
	}
	if before := launch(540, "c"); before.Child != nil {
		t.Error("an earlier time was launched after a later one")
	}
	launch(660, "d")
	if got := fmt.Sprint(children(c, j)); got != "[p/periodic-600 p/periodic-660]" {
		t.Error(got)
	}
	if now := c.Store.Snapshot().Job(nil, j.Namespace, j.ID); now.LastLaunch != 660 || now.Version != 0 ||
		now.JobModifyIndex != j.JobModifyIndex {
		t.Errorf("%+v", now)
	}
}

// Given a periodic job whose times have changed, or that was stopped, when a leader that has not seen that launches it,
// then nothing is launched.
func TestALaunchIsOfTheJobThatWasSeen(t *testing.T) {
	c, j := cluster(t, clocked)
	launch := func() *launches.Launched {
		return c.Must(t, &launches.Launch{
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobModifyIndex: j.JobModifyIndex,
			Due:            600,
			Seed:           "a",
		}).(*launches.Launched)
	}
	c.Must(t, &fsm.JobRegister{Job: parent(func(j *job.Job) { clocked(j); j.Priority = 60 }), Seed: "x"})
	if launch().Child != nil {
		t.Error("a job with other times was launched")
	}
	c.Must(t, &fsm.JobDeregister{Namespace: j.Namespace, Job: j.ID, Seed: "y"})
	j = c.Store.Snapshot().Job(nil, j.Namespace, j.ID)
	if launch().Child != nil {
		t.Error("a stopped job was launched")
	}
}

// Given a periodic job that must not overlap, when its time comes while a child goes on, then the launch is passed over
// and not made up for; a person may launch it nevertheless, and several in a second are several.
func TestWhatMustNotOverlapWaitsForItsNextTime(t *testing.T) {
	c, j := cluster(t, func(j *job.Job) { clocked(j); j.Periodic.ProhibitOverlap = true })
	cmd := launches.Launch{
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Due:            600,
		Seed:           "a",
	}
	c.Must(t, &cmd)
	next := cmd
	next.Due, next.Seed = 660, "b"
	skipped := launches.Overlap + ": p/periodic-600"
	if out := c.Must(t, &next).(*launches.Launched); out.Child != nil || out.Skipped != skipped {
		t.Fatalf("%+v", out)
	}
	if now := c.Store.Snapshot().Job(nil, j.Namespace, j.ID); now.LastLaunch != 660 {
		t.Error("what was passed over would be made up for")
	}
	for _, seed := range []string{"f", "g"} {
		c.Must(t, &launches.Force{Namespace: j.Namespace, Job: j.ID, Seed: seed})
	}
	if got := len(children(c, j)); got != 3 {
		t.Errorf("there are %d children", got)
	}
}

// Given a periodic job that a person has launched many times in one second, when the times of that second and of those
// behind it come, then each of them is launched: what a person has launched takes the name of none to come.
func TestWhatIsForcedTakesNoTimesName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := cluster(t, clocked)
		const many = 20
		for i := range many {
			c.Must(t, &launches.Force{Namespace: j.Namespace, Job: j.ID, Seed: fmt.Sprint("f", i)})
		}
		now := time.Now().Unix()
		for id := range c.Store.Snapshot().Children(nil, j) {
			if !strings.HasPrefix(string(id.ID), fmt.Sprintf("p/periodic-%d", now)) {
				t.Errorf("%s is not named after %d", id.ID, now)
			}
		}
		for at := now; at < now+many; at++ {
			out := c.Must(t, &launches.Launch{
				Namespace:      j.Namespace,
				Job:            j.ID,
				JobModifyIndex: j.JobModifyIndex,
				Due:            at,
				Seed:           fmt.Sprint("l", at),
			}).(*launches.Launched)
			if out.Child == nil || at > now && string(out.Child.ID) != fmt.Sprintf("p/periodic-%d", at) {
				t.Errorf("%d: %+v", at-now, out)
			}
		}
		if got := len(children(c, j)); got != 2*many {
			t.Errorf("there are %d children, not %d", got, 2*many)
		}
	})
}

// Given a periodic job that must not overlap, and a child that has no place, be it that none was found or that its
// node refused it permanently, when the next time comes, then the child is stopped and the next one launched; one that
// is tried again by itself, or whose volumes are being made, goes on, and so does one of which something runs.
func TestWhatHasNoPlaceGivesWayToTheNextTime(t *testing.T) {
	blocked := func(e *eval.Eval) {
		e.Status = eval.StatusBlocked
		e.FailedTGAllocs = map[string]*alloc.Metric{"g": {}}
	}
	for name, c := range map[string]struct {
		edit   func(*eval.Eval)
		status string // of an alloc; empty: there is none
		gives  bool
		over   bool
	}{
		"no place":            {blocked, "", true, false},
		"permanently refused": {blocked, alloc.ClientFailed, true, false},
		"half of it runs":     {blocked, alloc.ClientRunning, false, false},
		"to be tried again":   {func(*eval.Eval) {}, alloc.ClientFailed, false, false},
		"volumes being made":  {func(e *eval.Eval) { e.Status = eval.StatusBlocked }, "", false, false},
		"tried no more": {func(e *eval.Eval) { e.Status = eval.StatusComplete }, alloc.ClientFailed, false,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			cl, j := cluster(t, func(j *job.Job) { clocked(j); j.Periodic.ProhibitOverlap = true })
			cmd := launches.Launch{
				Namespace:      j.Namespace,
				Job:            j.ID,
				JobModifyIndex: j.JobModifyIndex,
				Due:            600,
				Seed:           "a",
			}
			first := cl.Must(t, &cmd).(*launches.Launched)
			if c.status != "" {
				cl.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
				a := &alloc.Alloc{
					ID:             "a",
					Namespace:      j.Namespace,
					Job:            first.Child.ID,
					JobCreateIndex: first.Child.CreateIndex,
					Node:           "n",
					Eval:           first.Eval.ID,
				}
				cl.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
				cl.Must(t, &fsm.AllocClientUpdate{
					Allocs: []*alloc.Alloc{{ID: a.ID, Node: "n", ClientStatus: c.status}},
				})
			}
			var evals []*eval.Eval
			for e := range cl.Store.Snapshot().EvalsByJob(nil, j.Namespace, first.Child.ID) {
				e := *e
				if c.edit(&e); e.ID != first.Eval.ID { // what the failure made
					e.Status = eval.StatusComplete
				}
				evals = append(evals, &e)
			}
			cl.Must(t, &fsm.EvalUpdate{Evals: evals})
			next := cmd
			next.Due, next.Seed = 660, "b"
			out := cl.Must(t, &next).(*launches.Launched)
			if launched := out.Child != nil; launched != (c.gives || c.over) {
				t.Errorf("launched: %t, %+v", launched, out)
			}
			before := cl.Store.Snapshot().Job(nil, j.Namespace, first.Child.ID)
			if before.Stop != c.gives || (len(out.Gave) == 1) != c.gives {
				t.Errorf("it was stopped: %t, said of %v", before.Stop, out.Gave)
			}
		})
	}
}

// Given a parameterized job, when it is dispatched, then the child has payload and meta, with those of the job, and a
// repeated dispatch with one token is the same.
func TestADispatchMakesAJob(t *testing.T) {
	c, j := cluster(t, parameterized)
	cmd := &launches.Dispatch{
		Namespace:        j.Namespace,
		Job:              j.ID,
		Payload:          []byte("x"),
		Meta:             map[string]string{"given": "new"},
		IdempotencyToken: "once",
		IDPrefix:         "night",
		Seed:             "a",
	}
	out := c.Must(t, cmd).(*launches.Launched)
	child := out.Child
	if string(child.Payload) != "x" || fmt.Sprint(child.Meta) != "map[given:new kept:1 more:]" ||
		child.ParentID != "p" || !child.Dispatched || child.Launches() || out.Eval == nil {
		t.Fatalf("%+v", child)
	}
	if want := ids.Job("p/dispatch-night-"); child.ID[:len(want)] != want {
		t.Error(child.ID)
	}
	if j.Meta["given"] != "old" {
		t.Error("the job itself has changed")
	}
	again := *cmd
	again.Seed = "b"
	if out := c.Must(t, &again).(*launches.Launched); out.Child.ID != child.ID || out.Eval != nil {
		t.Errorf("dispatched twice: %s", out.Child.ID)
	}
}

// Given a job of whose children one has ended and one goes on, when it is purged, then the first is forgotten with it
// and the second goes on, to its end.
func TestWhatWasLaunchedGoesOnWithoutItsJob(t *testing.T) {
	c, j := cluster(t, parameterized)
	dispatch := func(seed string) *launches.Launched {
		return c.Must(t, &launches.Dispatch{
			Namespace: j.Namespace,
			Job:       j.ID,
			Meta:      map[string]string{"given": "1"},
			Seed:      seed,
		}).(*launches.Launched)
	}
	over, goes := dispatch("a"), dispatch("b")
	e := *c.Store.Snapshot().Eval(nil, over.Eval.ID)
	e.Status = eval.StatusComplete
	c.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&e}})
	c.Must(t, &fsm.JobDeregister{Namespace: j.Namespace, Job: j.ID, Purge: true, Seed: "z"})
	s := c.Store.Snapshot()
	if s.Job(nil, j.Namespace, j.ID) != nil || s.Job(nil, j.Namespace, over.Child.ID) != nil {
		t.Error("what is over was not forgotten")
	}
	if left := s.Job(nil, j.Namespace, goes.Child.ID); left.Stopped() {
		t.Errorf("what went on was ended: %+v", left)
	}
}

// Given what a job does not take, when it is dispatched, then it is refused as the fault of who asks.
func TestWhatCannotBeDispatchedIsRefused(t *testing.T) {
	c, j := cluster(t, parameterized)
	good := map[string]string{"given": "1"}
	for name, cmd := range map[string]*launches.Dispatch{
		"too large":    {Meta: good, Payload: bytes.Repeat([]byte("x"), job.MaxPayload+1)},
		"meta missing": {},
		"much meta":    {Meta: map[string]string{"given": strings.Repeat("x", job.MaxMeta)}},
		"meta unknown": {Meta: map[string]string{"given": "1", "else": "2"}},
		"prefix":       {Meta: good, IDPrefix: "a/b"},
		"token":        {Meta: good, IdempotencyToken: string(bytes.Repeat([]byte("x"), launches.MaxToken+1))},
		"priority":     {Meta: good, Priority: 101},
	} {
		cmd.Namespace, cmd.Job = j.Namespace, j.ID
		cmd.Seed = name
		if _, _, err := c.Propose(t.Context(), cmd); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := children(c, j); len(got) != 0 {
		t.Errorf("launched: %v", got)
	}
	c.Must(t, &fsm.JobDeregister{Namespace: j.Namespace, Job: j.ID, Seed: "z"})
	_, _, err := c.Propose(t.Context(), &launches.Dispatch{Namespace: j.Namespace, Job: j.ID, Meta: good, Seed: "q"})
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("stopped: %v", err)
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Hint == "" {
		t.Errorf("it names no way out: %v", err)
	}
}

// Given jobs that launch others with a driver that their namespace does not let anybody use any more, when they are
// dispatched or launched, by a person or at their time, then nothing is launched, and the reason is said.
func TestNothingIsLaunchedThatItsNamespaceForbids(t *testing.T) {
	c, j := cluster(t, clocked)
	c.Must(t, &fsm.JobRegister{Seed: "q", Job: parent(func(j *job.Job) { parameterized(j); j.ID = "q" })})
	ns := &partition.Namespace{
		Name:         j.Namespace,
		Capabilities: &partition.Capabilities{DisabledDrivers: []string{"exec"}},
	}
	c.Must(t, &partitioning.NamespacePut{Namespace: ns})
	_, _, err := c.Propose(t.Context(), &launches.Force{Namespace: j.Namespace, Job: j.ID, Seed: "a"})
	if err == nil || !strings.Contains(err.Error(), `driver "exec" is not allowed in namespace "default"`) {
		t.Errorf("forced: %v", err)
	}
	_, _, err = c.Propose(t.Context(), &launches.Dispatch{
		Namespace: j.Namespace,
		Job:       "q",
		Meta:      map[string]string{"given": "1"},
		Seed:      "b",
	})
	if err == nil || !strings.Contains(err.Error(), "is not allowed") {
		t.Errorf("dispatched: %v", err)
	}
	out := c.Must(t, &launches.Launch{
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Due:            600,
		Seed:           "c",
	}).(*launches.Launched)
	if out.Child != nil || !strings.Contains(out.Skipped, "is not allowed") {
		t.Errorf("at its time: %+v", out)
	}
	if got := children(c, j); len(got) != 0 {
		t.Errorf("launched: %v", got)
	}
}

// Given a periodic job, when it is registered as one that is not, then it is refused.
func TestAJobStaysOfItsKind(t *testing.T) {
	c, _ := cluster(t, clocked)
	_, _, err := c.Propose(t.Context(), &fsm.JobRegister{Job: parent(func(*job.Job) {}), Seed: "x"})
	if !fault.Has(err, fault.Invalid) {
		t.Error(err)
	}
}

func BenchmarkDispatch1000(b *testing.B) {
	for b.Loop() {
		c, j := cluster(b, parameterized)
		began := time.Now()
		for i := range 1000 {
			c.Must(b, &launches.Dispatch{
				Namespace: j.Namespace,
				Job:       j.ID,
				Payload:   bytes.Repeat([]byte("x"), 1024),
				Meta:      map[string]string{"given": "1"},
				Seed:      fmt.Sprint(i),
			})
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "µs/dispatch")
	}
}

// Given a periodic job that may overlap, and of which nothing finds a place, then its times are passed over when as
// many wait as may, with the reason; and no more once one of them is stopped.
func TestWhatWaitsForAPlaceIsBounded(t *testing.T) {
	cl, j := cluster(t, clocked)
	launch := func(due int64) *launches.Launched {
		out := cl.Must(t, &launches.Launch{
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobModifyIndex: j.JobModifyIndex,
			Due:            due,
			Seed:           ids.New(),
			MaxPlaceless:   2,
		}).(*launches.Launched)
		if out.Eval != nil {
			e := *out.Eval
			e.Status = eval.StatusBlocked
			e.FailedTGAllocs = map[string]*alloc.Metric{"g": {}}
			cl.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&e}})
		}
		return out
	}
	first, second := launch(600), launch(660)
	if first.Child == nil || second.Child == nil {
		t.Fatalf("launched %+v and %+v", first, second)
	}
	if out := launch(720); out.Child != nil || !strings.Contains(out.Skipped, "2 jobs that were launched before wait") {
		t.Errorf("a third one: %+v", out)
	}
	cl.Must(t, &fsm.JobDeregister{Namespace: j.Namespace, Job: first.Child.ID, Seed: "s"})
	if out := launch(780); out.Child == nil {
		t.Errorf("with one stopped: %+v", out)
	}
}

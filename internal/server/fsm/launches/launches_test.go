package launches_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/launches"
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
	if out := c.Must(t, &next).(*launches.Launched); out.Child != nil || out.Skipped != launches.Overlap {
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
	c.Must(t, &fsm.JobDeregister{Namespace: j.Namespace, Job: j.ID, Purge: true, Seed: "z"})
	if left := children(c, j); len(left) != 0 {
		t.Errorf("forgotten, it leaves %v", left)
	}
}

// Given what a job does not take, when it is dispatched, then it is refused as the fault of who asks.
func TestWhatCannotBeDispatchedIsRefused(t *testing.T) {
	c, j := cluster(t, parameterized)
	good := map[string]string{"given": "1"}
	for name, cmd := range map[string]*launches.Dispatch{
		"too large":    {Meta: good, Payload: bytes.Repeat([]byte("x"), job.MaxPayload+1)},
		"meta missing": {},
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

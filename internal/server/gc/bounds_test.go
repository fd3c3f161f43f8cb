package gc

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// ran registers a batch job with the text of its file, and lets it run once, successfully.
func ran(t *testing.T, c *localstate.Cluster, id ids.Job, text int) ids.Alloc {
	t.Helper()
	c.Must(t, &fsm.JobRegister{
		Job: &job.Job{
			Namespace: ids.DefaultNamespace,
			ID:        id,
			Type:      job.TypeBatch,
			TaskGroups: []*job.TaskGroup{{
				Name:  "g",
				Count: 1,
				Tasks: []*job.Task{{Name: "t", Driver: "exec", Env: map[string]string{"MODE": "once"}}},
			}},
		},
		Seed:       ids.New(),
		Submission: &job.Submission{Source: strings.Repeat("#", text), Format: "hcl2"},
	})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, id)
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            id,
		JobCreateIndex: j.CreateIndex,
		JobVersion:     j.Version,
		TaskGroup:      j.TaskGroups[0].Name,
		Node:           "n",
		Name:           string(id) + ".g[0]",
	}
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	end(t, c, a.ID, alloc.ClientComplete)
	for e := range c.Store.Snapshot().EvalsByJob(nil, ids.DefaultNamespace, id) {
		done := *e
		done.Status = eval.StatusComplete
		c.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&done}})
	}
	return a.ID
}

// end has a node say how an alloc ended, with the events that a task has.
func end(t *testing.T, c *localstate.Cluster, id ids.Alloc, status string) {
	t.Helper()
	task := &alloc.TaskState{State: alloc.TaskDead, StartedAt: time.Now(), FinishedAt: time.Now()}
	for range 10 { // as many as are kept of a task
		task.Events = append(task.Events, &alloc.TaskEvent{
			Type:           alloc.EventStarted,
			Time:           time.Now().UnixNano(),
			DisplayMessage: strings.Repeat("what a task says ", 5),
		})
	}
	c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{{
		ID:           id,
		Node:         "n",
		ClientStatus: status,
		TaskStates:   map[string]*alloc.TaskState{"t": task},
	}}})
}

// size is how much of the state there is: its bytes in a snapshot, and rows by table.
func size(t *testing.T, s *state.Snap) (int, string) {
	t.Helper()
	var b bytes.Buffer
	if err := s.Persist(&b); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for range s.Jobs(nil, "*", "") {
		count["jobs"]++
	}
	for range s.AllJobVersions() {
		count["versions"]++
	}
	for j := range s.Jobs(nil, "*", "") {
		for range s.Submissions(nil, j.Namespace, j.ID) {
			count["texts"]++
		}
	}
	for range s.Allocs(nil, "") {
		count["allocs"]++
	}
	for range s.Evals(nil, "") {
		count["evals"]++
	}
	return b.Len(), fmt.Sprint(count)
}

// perJob is how many bytes of a snapshot a batch job may take that has run once, besides its file: what it is in memory
// is a small multiple.
const perJob = 6 << 10

// Given a crowd of batch jobs that run within a minute, when they are over, then no more of them stay than the bound
// allows, the youngest ones, and their bytes are bounded by it; and when a person collects garbage, then the state is
// as it was before them.
func TestACrowdOfFinishedJobsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		gc := New(c.Store, c, Hold(Ages{Most: Most{Jobs: 40, Text: 40 << 10}}), slog.New(slog.DiscardHandler))
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
		ended := make(chan error, 1)
		go func() { ended <- gc.Run(t.Context()) }()
		empty, none := size(t, c.Store.Snapshot())
		name := func(i int) ids.Job { return ids.Job(fmt.Sprintf("crowd-%03d", i)) }
		for i := range 300 {
			ran(t, c, name(i), 512)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(everyCount)
		synctest.Wait()
		s := c.Store.Snapshot()
		got, rows := size(t, s)
		if want := "map[allocs:40 evals:40 jobs:40 texts:40 versions:40]"; rows != want {
			t.Errorf("of 300 jobs that are over there is %s, want %s", rows, want)
		}
		if got-empty > 40*(perJob+512) {
			t.Errorf("40 jobs that are over take %d bytes", got-empty)
		}
		t.Logf("40 jobs that are over take %d bytes of a snapshot, %d each with 512 of its file", got-empty,
			(got-empty)/40)
		if s.Job(nil, ids.DefaultNamespace, name(299)) == nil || s.Job(nil, ids.DefaultNamespace, name(0)) != nil {
			t.Error("it is not the youngest that stayed")
		}

		for i := range 10 {
			ran(t, c, name(300+i), 10<<10)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(everyCount)
		synctest.Wait()
		if _, rows := size(t, c.Store.Snapshot()); rows != "map[allocs:4 evals:4 jobs:4 texts:4 versions:4]" {
			t.Errorf("of jobs with large files there is %s, want as many as 40 KiB hold", rows)
		}

		if _, err := gc.Force(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, rows := size(t, c.Store.Snapshot()); rows != none || got-empty > 512 { // the index of each table stays
			t.Errorf("after a person collected there is %s, %d bytes more than before there were jobs", rows, got-empty)
		}
	})
}

// Given a job that lives and whose tasks fail again and again, when a crowd of its ends has come, then no more of them
// stay than the bound allows, but for what the job counts on.
func TestTheEndsOfALiveJobAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		ages := Hold(Ages{Most: Most{Allocs: 20, Evals: 30}})
		gc := New(c.Store, c, ages, slog.New(slog.DiscardHandler))
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
		c.Must(t, &fsm.JobRegister{
			Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: "web", Type: job.TypeService},
			Seed: ids.New(),
		})
		j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
		var last ids.Alloc
		for range 100 {
			a := &alloc.Alloc{
				ID:             ids.Alloc(ids.New()),
				Namespace:      j.Namespace,
				Job:            j.ID,
				JobCreateIndex: j.CreateIndex,
				Node:           "n",
				PreviousAlloc:  last,
			}
			c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
			end(t, c, a.ID, alloc.ClientFailed)
			last = a.ID
			for e := range c.Store.Snapshot().Evals(nil, "") {
				done := *e
				done.Status = eval.StatusComplete
				c.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&done}})
			}
			time.Sleep(time.Millisecond)
		}
		by, _ := ages.now()
		if _, err := gc.collect(t.Context(), by); err != nil {
			t.Fatal(err)
		}
		if _, rows := size(t, c.Store.Snapshot()); rows != "map[allocs:21 evals:30 jobs:1 versions:1]" {
			t.Errorf("of 100 ends there is %s", rows)
		}
		if c.Store.Snapshot().Alloc(nil, last) == nil {
			t.Error("the last end is gone: nobody would know how often it failed")
		}
	})
}

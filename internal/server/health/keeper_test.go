package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// house is a state with one node, and the keeper that is tested.
type house struct {
	*localstate.Cluster
	t *testing.T

	mu       sync.Mutex
	commands []*fsm.AllocHealth // that the keeper proposed
	broken   error              // what proposing fails with
}

// Propose implements fsm.Proposer for the keeper.
func (h *house) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return nil, 0, h.broken
	}
	if d, ok := cmd.(*fsm.AllocHealth); ok {
		h.commands = append(h.commands, d)
	}
	return h.Cluster.Propose(ctx, cmd)
}

func (h *house) proposed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.commands)
}

func (h *house) breakDown(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
}

// inHouse tells a story in a bubble while a keeper leads.
func inHouse(t *testing.T, story func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{Cluster: localstate.New(t), t: t}
		h.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
		stop := h.lead()
		story(h)
		stop()
	})
}

// lead runs a keeper until the function that it returns is called.
func (h *house) lead() func() {
	k := New(Config{Store: h.Store, Proposer: h})
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	}
}

// register stores a service with one task whose allocs are healthy after 10 s, within a minute.
func (h *house) register(id ids.Job, edit ...func(*job.Job)) *job.Job {
	h.t.Helper()
	j := &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        id,
		Type:      job.TypeService,
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t"}},
			Update: &job.UpdateStrategy{
				MaxParallel:     1,
				MinHealthyTime:  10 * time.Second,
				HealthyDeadline: time.Minute,
			}}},
	}
	for _, e := range edit {
		e(j)
	}
	h.Must(h.t, &fsm.JobRegister{Job: j, Seed: ids.New()})
	return h.Store.Snapshot().Job(nil, j.Namespace, id)
}

func (h *house) place(j *job.Job) ids.Alloc {
	h.t.Helper()
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobVersion:     j.Version,
		JobCreateIndex: j.CreateIndex,
		JobType:        j.Type,
		TaskGroup:      "g",
		Node:           "n",
	}
	h.Must(h.t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	return a.ID
}

// say plays the node: the task's state, and how often it was started again.
func (h *house) say(status, state string, restarts uint64, allocs ...ids.Alloc) {
	h.t.Helper()
	cmd := &fsm.AllocClientUpdate{Seed: ids.New()}
	for _, id := range allocs {
		cmd.Allocs = append(cmd.Allocs,
			&alloc.Alloc{ID: id, Node: "n", ClientStatus: status, TaskStates: map[string]*alloc.TaskState{
				"t": {
					State:    state,
					Failed:   status == alloc.ClientFailed,
					Restarts: restarts,
					Events:   []*alloc.TaskEvent{exit(status)},
				}}})
	}
	h.Must(h.t, cmd)
}

func exit(status string) *alloc.TaskEvent {
	if status == alloc.ClientFailed {
		return &alloc.TaskEvent{Type: alloc.EventTerminated, ExitCode: 3}
	}
	return &alloc.TaskEvent{Type: alloc.EventStarted}
}

func (h *house) runs(allocs ...ids.Alloc) {
	h.t.Helper()
	h.say(alloc.ClientRunning, alloc.TaskRunning, 0, allocs...)
}

// health is what the state says of an alloc's.
func (h *house) health(id ids.Alloc) string {
	synctest.Wait()
	switch a := h.Store.Snapshot().Alloc(nil, id); {
	case a.Health == nil:
		return "open"
	case a.Healthy():
		return "healthy"
	default:
		return "unhealthy: " + a.Health.Reason
	}
}

func (h *house) expect(what string, id ids.Alloc, want string) {
	h.t.Helper()
	if got := h.health(id); got != want {
		h.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestAnAllocIsHealthyWhenItsTaskHasRunLongEnough(t *testing.T) {
	inHouse(t, func(h *house) {
		a := h.place(h.register("web"))
		time.Sleep(7 * time.Second)
		h.runs(a)
		time.Sleep(10*time.Second - time.Millisecond)
		h.expect("just before", a, "open")
		time.Sleep(grain + time.Millisecond)
		h.expect("after ten seconds", a, "healthy")
		got := h.Store.Snapshot().Alloc(nil, a)
		if got.Health.Index != got.ModifyIndex || time.Since(got.Health.At) > grain ||
			got.AllocModifyIndex == got.ModifyIndex {
			t.Errorf("decided %+v, changed at %d by the servers at %d", got.Health, got.ModifyIndex,
				got.AllocModifyIndex)
		}
		time.Sleep(time.Hour)
		if n := h.proposed(); n != 1 {
			t.Errorf("%d commands", n)
		}
	})
}

func TestAllocsThatStartTogetherShareOneCommand(t *testing.T) {
	inHouse(t, func(h *house) {
		j := h.register("web")
		var all []ids.Alloc
		for range 200 {
			all = append(all, h.place(j))
		}
		for _, a := range all {
			h.runs(a) // each by a report of its own, all of them within a grain
			time.Sleep(grain / 1000)
		}
		time.Sleep(11 * time.Second)
		for _, a := range all {
			h.expect("each", a, "healthy")
		}
		if n := h.proposed(); n > 2 {
			t.Errorf("%d commands for 200 allocs", n)
		}
	})
}

func TestARestartBeginsTheTimeAnewBeforeAndAfterTheDecision(t *testing.T) {
	inHouse(t, func(h *house) {
		a := h.place(h.register("web"))
		h.runs(a)
		time.Sleep(8 * time.Second)
		h.say(alloc.ClientRunning, alloc.TaskRunning, 1, a)
		time.Sleep(8 * time.Second)
		h.expect("eight seconds after the restart", a, "open")
		time.Sleep(3 * time.Second)
		h.expect("eleven seconds after it", a, "healthy")
		h.say(alloc.ClientRunning, alloc.TaskPending, 2, a)
		h.expect("the task does not run", a, "open")
		h.say(alloc.ClientRunning, alloc.TaskRunning, 2, a)
		time.Sleep(11 * time.Second)
		h.expect("it runs again", a, "healthy")
	})
}

func TestAFailureIsRecordedWithItsReportAndCostsNoCommand(t *testing.T) {
	inHouse(t, func(h *house) {
		a := h.place(h.register("web"))
		h.runs(a)
		time.Sleep(2 * time.Second)
		h.say(alloc.ClientFailed, alloc.TaskDead, 0, a)
		h.expect("at once", a, `unhealthy: task "t" exited with code 3`)
		time.Sleep(time.Hour)
		if n := h.proposed(); n != 0 {
			t.Errorf("%d commands", n)
		}
	})
}

func TestTheDeadlineDoesNotCountTheWaitForStorage(t *testing.T) {
	inHouse(t, func(h *house) {
		j := h.register("db", func(j *job.Job) {
			j.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"data": {
				Name:   "data",
				Type:   job.VolumeTypeCSI,
				Source: "v",
			}}
		})
		late := h.place(h.register("late"))
		a := h.place(j)
		time.Sleep(2 * time.Minute)
		h.expect("without a volume", late, `unhealthy: it was not healthy within 1m0s: task "t" has not started`)
		h.expect("while it waits for its volume", a, "open")
		h.say(alloc.ClientPending, alloc.TaskPending, 0, a) // the last event is not the wait: the volume is there
		time.Sleep(time.Minute + grain)
		h.expect("a minute later", a, `unhealthy: it was not healthy within 1m0s: task "t" has not started`)
		h.runs(a)
		time.Sleep(11 * time.Second)
		h.expect("it runs after all", a, "healthy")
	})
}

func TestANewLeaderCountsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{Cluster: localstate.New(t), t: t}
		h.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
		stop := h.lead()
		a := h.place(h.register("web"))
		h.runs(a)
		time.Sleep(9 * time.Second)
		stop()
		time.Sleep(time.Hour) // nobody leads
		h.expect("without a leader", a, "open")
		stop = h.lead()
		time.Sleep(9 * time.Second)
		h.expect("nine seconds of the new leader", a, "open")
		time.Sleep(2 * time.Second)
		h.expect("eleven seconds of it", a, "healthy")
		stop()
	})
}

func TestADecisionInTheMiddleOfAnUpdateMakesItGoOn(t *testing.T) {
	inHouse(t, func(h *house) {
		first := h.register("web")
		old := h.place(first)
		h.runs(old)
		time.Sleep(11 * time.Second)
		second := h.register("web", func(j *job.Job) { j.TaskGroups[0].Tasks[0].Driver = "other" })
		fresh, slow := h.place(second), h.place(second)
		h.runs(fresh)
		before := evals(h)
		time.Sleep(11 * time.Second)
		h.expect("the new one", fresh, "healthy")
		if got := evals(h) - before; got != 1 {
			t.Errorf("%d evaluations for the update to go on", got)
		}
		time.Sleep(time.Minute)
		h.expect("the slow one", slow, `unhealthy: it was not healthy within 1m0s: task "t" has not started`)
		if got := evals(h) - before; got != 2 {
			t.Errorf("%d evaluations when it stopped", got)
		}
		// What is not in the middle of an update needs no look.
		h.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: old}}})
		h.runs(slow)
		time.Sleep(11 * time.Second)
		h.expect("the slow one at last", slow, "healthy")
		if got := evals(h) - before; got != 2 {
			t.Errorf("%d evaluations after the end of the update", got)
		}
	})
}

// evals counts the evaluations by which an update goes on.
func evals(h *house) int {
	synctest.Wait()
	n := 0
	for e := range h.Store.Snapshot().Evals(nil, "") {
		if e.TriggeredBy == eval.TriggerRollingUpdate {
			n++
		}
	}
	return n
}

func TestWhatIsNotJudgedIsLeftAlone(t *testing.T) {
	inHouse(t, func(h *house) {
		batch := h.place(h.register("sums", func(j *job.Job) { j.Type, j.TaskGroups[0].Update = job.TypeBatch, nil }))
		manual := h.place(h.register("careful", func(j *job.Job) {
			j.TaskGroups[0].Update.HealthCheck = alloc.ManualHealth
		}))
		stopped := h.place(h.register("gone"))
		h.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: stopped}}})
		h.runs(batch, manual, stopped)
		time.Sleep(time.Hour)
		for name, a := range map[string]ids.Alloc{"batch": batch, "manual": manual, "stopped": stopped} {
			h.expect(name, a, "open")
		}
		h.say(alloc.ClientFailed, alloc.TaskDead, 0, batch)
		h.expect("a batch job's end", batch, "open")
		if n := h.proposed(); n != 0 {
			t.Errorf("%d commands", n)
		}
	})
}

func TestADecisionThatCannotBeWrittenIsMadeAgain(t *testing.T) {
	inHouse(t, func(h *house) {
		a := h.place(h.register("web"))
		h.runs(a)
		h.breakDown(errors.New("the disk is full"))
		time.Sleep(20 * time.Second)
		h.expect("while nothing can be written", a, "open")
		h.breakDown(nil)
		time.Sleep(2 * time.Minute)
		h.expect("later", a, "healthy")
	})
}

func TestADecisionAboutAnAllocThatChangedMeanwhileIsVoid(t *testing.T) {
	c := localstate.New(t)
	h := &house{Cluster: c, t: t}
	h.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
	a := h.place(h.register("web"))
	h.runs(a)
	seen := c.Store.Snapshot().Alloc(nil, a).ModifyIndex
	h.say(alloc.ClientRunning, alloc.TaskRunning, 1, a)
	decide := func(index uint64) {
		h.Must(t, &fsm.AllocHealth{Seed: "s", Decisions: []fsm.HealthDecision{{Alloc: a, Seen: index, Healthy: true}}})
	}
	decide(seen)
	if got := c.Store.Snapshot().Alloc(nil, a); got.Health != nil {
		t.Errorf("an old decision was taken: %+v", got.Health)
	}
	decide(c.Store.Snapshot().Alloc(nil, a).ModifyIndex)
	if got := c.Store.Snapshot().Alloc(nil, a); !got.Healthy() || strings.Contains(fmt.Sprint(got.Health.At), "0001") {
		t.Errorf("a fresh one was not: %+v", got.Health)
	}
	// A node that says what it thinks of health is not heard.
	h.Must(t, &fsm.AllocClientUpdate{
		Allocs: []*alloc.Alloc{{
			ID:           a,
			Node:         "n",
			ClientStatus: alloc.ClientRunning,
			Health:       &alloc.Health{Reason: "no"},
		}},
	})
	if got := c.Store.Snapshot().Alloc(nil, a); !got.Healthy() {
		t.Errorf("the node decided: %+v", got.Health)
	}
}

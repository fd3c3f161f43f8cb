package cli_test

import (
	"fmt"
	"time"

	"berth/api"
)

// scene is a job at one time of its story.
type scene struct {
	allocs []*api.AllocationListStub
	evals  []*api.Evaluation
}

// scene is the present one: a job whose run is followed goes from one to the next with each look at it, others are at
// the end of theirs.
func (f *fake) scene(id string) scene {
	plot := f.plot(id)
	if id != f.job {
		return plot[len(plot)-1]
	}
	return plot[min(max(f.reads["job/"+id], 1), len(plot))-1]
}

// rollout is all of a scene.
func (f *fake) rollout(id string) *api.JobRollout {
	at := f.scene(id)
	out := &api.JobRollout{Job: f.jobFull(id), Allocations: at.allocs}
	for _, e := range at.evals {
		if e.Status != "complete" {
			out.Evaluations = append(out.Evaluations, e)
		}
	}
	if list := f.deployed(); id == "roll" {
		out.Deployment = list[0]
	}
	return out
}

func (f *fake) jobFull(id string) *api.Job {
	count, kind := 1, "service"
	switch id {
	case "roll":
		count = 2
	case "sums":
		kind = "batch"
	}
	g := &api.TaskGroup{
		Name:  "g",
		Count: &count,
		Tasks: []*api.Task{{Name: "redis"}, {Name: "prep", Lifecycle: &api.TaskLifecycle{Hook: "prestart"}}},
	}
	if kind == "service" {
		g.Update = &api.UpdateStrategy{HealthCheck: ptr("task_states"), MinHealthyTime: ptr(10 * time.Second)}
	}
	if id == "edge" {
		g.Services = []*api.Service{{Name: "edge", Connect: &api.ConsulConnect{Gateway: &api.ConsulGateway{}}}}
	}
	return &api.Job{
		ID:             &id,
		Name:           &id,
		Type:           &kind,
		Priority:       ptr(50),
		Datacenters:    []string{"*"},
		Namespace:      ptr("default"),
		NodePool:       ptr("default"),
		Status:         ptr("running"),
		Stop:           ptr(false),
		Version:        ptr(uint64(3)),
		Stable:         ptr(true),
		SubmitTime:     ptr(f.ago(time.Hour)),
		JobModifyIndex: ptr(uint64(12)),
		TaskGroups:     []*api.TaskGroup{g},
	}
}

// A stub is made in one state and then bent.
type bend func(*api.AllocationListStub)

func (f *fake) bent(id, status string, events []*api.TaskEvent, bends ...bend) *api.AllocationListStub {
	a := f.stub(id, status, events)
	for _, b := range bends {
		b(a)
	}
	return a
}

func is(phase string) bend {
	return func(a *api.AllocationListStub) { a.Standing = &api.AllocStanding{Phase: phase} }
}

func waits(text string) bend {
	return func(a *api.AllocationListStub) { a.Standing.Waits = text }
}

func trouble(text string) bend {
	return func(a *api.AllocationListStub) { a.Standing.Task, a.Standing.Trouble = "redis", text }
}

func healthy(a *api.AllocationListStub) {
	a.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: ptr(true)}
}

func unhealthy(why string) bend {
	return func(a *api.AllocationListStub) {
		a.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: ptr(false), Reason: why}
	}
}

func old(a *api.AllocationListStub) {
	a.JobVersion = 2
	a.CreateIndex = 30
	a.DesiredStatus = "run"
}

func (f *fake) began(a *api.AllocationListStub) { a.TaskStates["redis"].StartedAt = &f.now }

func complete(trigger string) *api.Evaluation {
	return &api.Evaluation{
		ID:          evalA,
		Status:      "complete",
		TriggeredBy: trigger,
		Priority:    50,
		CreateIndex: 40,
	}
}

// plot is the story of a job's run, scene by scene.
func (f *fake) plot(id string) []scene {
	done := []*api.Evaluation{complete("job-register")}
	plain := func(allocs ...*api.AllocationListStub) scene { return scene{allocs, done} }
	switch id {
	case "web":
		blocked := f.unplaced()
		blocked.ID = evalA
		blocked.Status = "blocked"
		blocked.TriggeredBy = "queued-allocs"
		return []scene{{[]*api.AllocationListStub{f.bent(allocA, "running", f.events(4), is("running"), healthy)},
			[]*api.Evaluation{f.unplaced(), blocked}}}
	case "bad":
		failure := append(f.events(1),
			&api.TaskEvent{Type: api.TaskDriverFailure, Time: f.ago(0), DisplayMessage: "no such command: /no/such"})
		text := `task "redis": no such command: /no/such`
		return []scene{plain(f.bent(allocC, "pending", f.events(1), is("pending"))),
			plain(f.bent(allocC, "failed", failure, is("failed"), trouble(text), unhealthy(text)))}
	case "loop":
		return f.loop()
	case "busy", "silent", "away", "edge":
		first := plain(f.bent(allocA, "running", f.events(4), is("running")))
		return []scene{first, first}
	case "kept":
		first := plain(f.bent(allocB, "running", f.events(4), is("running"), healthy, orphaned))
		return []scene{first, first}
	case "roll":
		return f.roll()
	case "sums":
		return []scene{plain(f.bent(allocC, "running", f.events(4), is("running"), batch)),
			plain(f.bent(allocC, "complete", f.events(4), is("complete"), batch))}
	case "db":
		leaving := func(a *api.AllocationListStub) { old(a); a.DesiredStatus = "stop" }
		stopped := f.bent(allocB, "failed", nil, leaving, is("failed"))
		held := `volume "db-data": held by allocation 4f02aa10, which is stopping`
		return []scene{
			plain(f.bent(allocA, "pending", f.events(1), is("pending")),
				f.bent(allocB, "running", nil, leaving, is("stopping"))),
			plain(f.bent(allocA, "pending", f.events(2), is("pending"), waits(held)),
				f.bent(allocB, "running", nil, leaving, is("releasing"), waits("unstage: the device is busy"))),
			plain(f.bent(allocA, "pending", f.events(3), is("pending")), stopped),
			plain(f.bent(allocA, "running", f.events(4), is("running"), f.began), stopped),
			plain(f.bent(allocA, "running", f.events(4), is("running"), healthy), stopped),
		}
	}
	return []scene{plain(f.bent(allocA, "running", f.events(4), is("running"), healthy, before),
		f.bent(allocB, "failed", nil, is("failed"), before))}
}

// before is an allocation that the evaluation of a command has left as it was.
func before(a *api.AllocationListStub) { a.EvalID = evalB }

// orphaned is an allocation whose record its node has lost.
func orphaned(a *api.AllocationListStub) {
	a.Standing.Orphan = "node 8f3a11c0 keeps allocation 4f02aa10 as an orphan: this node has lost its record of it " +
		"(berth node orphans adopt 4f02aa10, or berth node orphans end 4f02aa10)"
}

func batch(a *api.AllocationListStub) { a.JobType = "batch" }

// loop ends as soon as it has begun, twice, and then for good, until it is placed anew.
func (f *fake) loop() []scene {
	all := []*api.TaskEvent{
		{Type: api.TaskStarted, Time: f.ago(0), DisplayMessage: "Task started by client"},
		{Type: api.TaskTerminated, Time: f.ago(0) + 1, DisplayMessage: "Exit Code: 3"},
		{Type: api.TaskRestarting, Time: f.ago(0) + 2, DisplayMessage: "Task restarting in 15s"},
		{Type: api.TaskTerminated, Time: f.ago(0) + 3, DisplayMessage: "Exit Code: 4"},
		{Type: api.TaskNotRestarting, Time: f.ago(0) + 4, DisplayMessage: "Exceeded allowed attempts", FailsTask: true},
	}
	restarting := func(a *api.AllocationListStub) {
		a.Standing.RestartAt = ptr(f.now.Add(15 * time.Second))
		a.Standing.Attempt = 2
		a.Standing.Attempts = 3
	}
	text := `task "redis" exited with code 4`
	failed := f.bent(allocC, "failed", all, is("failed"), trouble(text), unhealthy(text))
	later := f.bent(allocC, "failed", all, is("failed"), trouble(text), unhealthy(text),
		func(a *api.AllocationListStub) { a.FollowupEvalID = evalB })
	pending := &api.Evaluation{ID: evalB, Status: "pending", TriggeredBy: "alloc-failure", CreateIndex: 45}
	retry := &api.Evaluation{
		ID:          evalB,
		Status:      "pending",
		TriggeredBy: "alloc-failure",
		CreateIndex: 45,
		WaitUntil:   ptr(f.now.Add(30 * time.Second)),
	}
	done := complete("job-register")
	return []scene{
		{[]*api.AllocationListStub{f.bent(allocC, "running", all[:1], is("running"), f.began)},
			[]*api.Evaluation{done}},
		{[]*api.AllocationListStub{f.bent(allocC, "pending", all[:3], is("restarting"),
			trouble(`task "redis" exited with code 3`), restarting)}, []*api.Evaluation{done}},
		{[]*api.AllocationListStub{failed}, []*api.Evaluation{done, pending}},
		{[]*api.AllocationListStub{later}, []*api.Evaluation{done, retry}},
	}
}

// roll is an update of two whose first allocation is not well.
func (f *fake) roll() []scene {
	done := []*api.Evaluation{complete("job-register")}
	runs := f.bent(allocB, "running", nil, old, is("running"), healthy, before)
	stops := f.bent(allocC, "complete", nil, old, is("complete"),
		func(a *api.AllocationListStub) { a.DesiredStatus = "stop" })
	text := `task "redis" exited with code 3`
	return []scene{
		{[]*api.AllocationListStub{f.bent(allocA, "running", f.events(4), is("running"), f.began), runs, stops}, done},
		{[]*api.AllocationListStub{f.bent(allocA, "failed", f.events(4), is("failed"), trouble(text), unhealthy(text)),
			runs}, done},
	}
}

// ending is how the allocations of a job end that was stopped.
func (f *fake) ending() [][]*api.AllocationListStub {
	stop := func(a *api.AllocationListStub) { a.DesiredStatus = "stop" }
	switch f.job {
	case "busy":
		return [][]*api.AllocationListStub{{f.bent(allocA, "running", nil, stop, is("releasing"))}}
	case "kept":
		return [][]*api.AllocationListStub{
			{f.bent(allocB, "running", nil, stop, is("stopping"), orphaned)},
			{f.bent(allocB, "lost", nil, stop, is("lost"))},
		}
	case "silent":
		return [][]*api.AllocationListStub{{f.bent(allocA, "lost", nil, stop, is("lost"))}}
	case "away":
		there := func(a *api.AllocationListStub) { a.NodeID = nodeB }
		return [][]*api.AllocationListStub{{f.bent(allocB, "lost", nil, stop, there, is("lost"))}}
	case "db":
	default:
		return [][]*api.AllocationListStub{{}}
	}
	return [][]*api.AllocationListStub{
		{f.bent(allocA, "running", nil, stop, is("stopping"))},
		{f.bent(allocA, "running", nil, stop, is("releasing"))},
		{f.bent(allocA, "complete", nil, stop, is("complete"))},
	}
}

// holding is an allocation of a job that was stopped, with a volume that it cannot release.
func (f *fake) holding() *api.Allocation {
	a := f.alloc()
	v := &a.Storage[0]
	v.Held = true
	v.State, v.Path = "being released since 1999-12-31T23:59:00Z; there: unstage", ""
	v.NextTry = ptr(f.now.Add(time.Minute))
	if f.job == "silent" {
		v.State = "being released since 1999-12-31T23:59:00Z"
		v.LastError, v.NextTry = "", nil
	}
	a.Storage = append(a.Storage, api.AllocVolume{Alias: "other", Volume: "other", State: "released"})
	return a
}

// crashing is an allocation that was well once, between two starts of its task.
func (f *fake) crashing() *api.Allocation {
	stub := f.loop()[1].allocs[0]
	a := f.alloc()
	a.ID = stub.ID
	a.ClientStatus = "running"
	a.TaskStates = stub.TaskStates
	a.Standing = stub.Standing
	a.DeploymentStatus = &api.AllocDeploymentStatus{
		Healthy: ptr(false),
		Reason:  `it was not healthy within 5m0s: task "redis" exited with code 3`,
	}
	return a
}

// submissionOf is what a job was run from: "roll" with a value, "sums" in JSON with one.
func submissionOf(id string) *api.JobSubmission {
	text := fmt.Sprintf("job %q {}\n", id)
	switch id {
	case "roll":
		text = "variable \"volume\" {}\nvariable \"size\" {\n  default = 1\n}\n" + text
		return &api.JobSubmission{
			Source:        text,
			VariableFlags: map[string]string{"volume": "old"},
			Variables:     "size = 3",
		}
	case "sums":
		text = `{"variable": {"volume": {}}, "job": {"sums": {}}}`
		return &api.JobSubmission{Source: text, VariableFlags: map[string]string{"volume": "old"}}
	}
	return &api.JobSubmission{Source: text}
}

package alloc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// a group with one task of each kind that health looks at.
func healthGroup(u *job.UpdateStrategy) *job.TaskGroup {
	return &job.TaskGroup{Name: "g", Update: u, Tasks: []*job.Task{
		{Name: "init", Lifecycle: &job.TaskLifecycle{Hook: job.HookPrestart}},
		{Name: "proxy", Lifecycle: &job.TaskLifecycle{Hook: job.HookPrestart, Sidecar: true}},
		{Name: "main"},
		{Name: "after", Lifecycle: &job.TaskLifecycle{Hook: job.HookPoststart}},
		{Name: "clean", Lifecycle: &job.TaskLifecycle{Hook: job.HookPoststop}},
	}}
}

var tenSeconds = &job.UpdateStrategy{
	HealthCheck:     "task_states",
	MinHealthyTime:  10 * time.Second,
	HealthyDeadline: time.Minute,
}

// with makes an alloc whose tasks run as they should, and lets edits break that.
func with(edits ...func(*alloc.Alloc)) *alloc.Alloc {
	a := &alloc.Alloc{
		ID:            "a",
		JobType:       job.TypeService,
		DesiredStatus: alloc.DesiredRun,
		ClientStatus:  alloc.ClientRunning,
		TaskStates: map[string]*alloc.TaskState{
			"init":  {State: alloc.TaskDead},
			"proxy": {State: alloc.TaskRunning, StartedAt: noon},
			"main":  {State: alloc.TaskRunning, StartedAt: noon},
			"after": {State: alloc.TaskDead},
			"clean": {State: alloc.TaskPending},
		},
	}
	for _, e := range edits {
		e(a)
	}
	return a
}

func state(task, s string) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) { a.TaskStates[task] = &alloc.TaskState{State: s} }
}

func failed(task string, code int) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) {
		a.ClientStatus = alloc.ClientFailed
		a.TaskStates[task] = &alloc.TaskState{
			State:  alloc.TaskDead,
			Failed: true,
			Events: []*alloc.TaskEvent{exited(code)},
		}
	}
}

func exited(code int) *alloc.TaskEvent {
	return &alloc.TaskEvent{
		Type:     alloc.EventTerminated,
		ExitCode: code,
		Details:  map[string]string{"exit_code": fmt.Sprint(code)},
	}
}

// restarted is another run of a task.
func restarted(task string) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) {
		// a node's clock went back
		a.TaskStates[task] = &alloc.TaskState{State: alloc.TaskRunning, Restarts: 1, StartedAt: noon.Add(-time.Hour)}
	}
}

func waitsFor(text string) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) {
		a.ClientStatus = alloc.ClientPending
		for _, n := range []string{"init", "proxy", "main", "after", "clean"} {
			a.TaskStates[n] = &alloc.TaskState{
				State:  alloc.TaskPending,
				Events: []*alloc.TaskEvent{{Type: alloc.EventStorageWaiting, DisplayMessage: text}},
			}
		}
	}
}

func pending(a *alloc.Alloc) {
	a.ClientStatus = alloc.ClientPending
	a.TaskStates = map[string]*alloc.TaskState{"init": {State: alloc.TaskRunning}, "proxy": {State: alloc.TaskPending},
		"main": {State: alloc.TaskPending}}
}

func TestHealthIsTenSecondsOfUndisturbedTasks(t *testing.T) {
	stopped := func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop }
	decided := func(ok bool) func(*alloc.Alloc) {
		return func(a *alloc.Alloc) { a.Health = &alloc.Health{Healthy: ok} }
	}
	manual := &job.UpdateStrategy{
		HealthCheck:     alloc.ManualHealth,
		MinHealthyTime:  10 * time.Second,
		HealthyDeadline: time.Minute,
	}
	atOnce := &job.UpdateStrategy{HealthyDeadline: time.Minute}
	endless := &job.UpdateStrategy{MinHealthyTime: 10 * time.Second}
	// Each look is at a second of one story; the memory of a look is what the next one begins with.
	type look struct {
		at    int
		alloc *alloc.Alloc
		do    alloc.HealthDo
		until int // 0: news alone
		why   string
	}
	const (
		await = alloc.HealthAwait
		good  = alloc.HealthGood
		bad   = alloc.HealthBad
		rest  = alloc.HealthRest
	)
	for _, c := range []struct {
		name   string
		update *job.UpdateStrategy
		looks  []look
	}{
		{"it runs long enough", tenSeconds,
			[]look{{0, with(), await, 10, ""}, {9, with(), await, 10, ""}, {10, with(), good, 0, ""}}},
		{"it counts from when the tasks were known to run", tenSeconds,
			[]look{{0, with(pending), await, 60, ""}, {7, with(), await, 17, ""}, {17, with(), good, 0, ""}}},
		{"no time is asked for", atOnce, []look{{0, with(pending), await, 60, ""}, {1, with(), good, 0, ""}}},
		{"a restart begins the time anew, whatever the node's clock says", tenSeconds,
			[]look{{0, with(), await, 10, ""}, {8, with(restarted("main")), await, 18, ""},
				{10, with(restarted("main")), await, 18, ""}, {18, with(restarted("main")), good, 0, ""}}},
		{"a sidecar's restart too", tenSeconds,
			[]look{{0, with(), await, 10, ""}, {5, with(restarted("proxy")), await, 15, ""}}},
		{"an end begins it anew", tenSeconds,
			[]look{{0, with(), await, 10, ""}, {5, with(state("main", alloc.TaskPending)), await, 60, ""},
				{6, with(), await, 16, ""}}},
		{"prestart goes on", tenSeconds, []look{{0, with(state("init", alloc.TaskRunning)), await, 60, ""}}},
		{"poststart goes on", tenSeconds, []look{{0, with(state("after", alloc.TaskRunning)), await, 60, ""}}},
		{"a task is not reported", tenSeconds,
			[]look{{0, with(func(a *alloc.Alloc) { delete(a.TaskStates, "main") }), await, 60, ""}}},
		{"it failed", tenSeconds,
			[]look{{0, with(), await, 10, ""}, {2, with(failed("main", 3)), bad, 0, `task "main" exited with code 3`}}},
		{"prestart failed", tenSeconds, []look{{2, with(failed("init", 1)), bad, 0, `task "init" exited with code 1`}}},
		{"it ended well and should not have", tenSeconds,
			[]look{{2, with(func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientComplete }), bad, 0,
				"it ended though it should run"}}},
		{"too late", tenSeconds, []look{{0, with(pending), await, 60, ""}, {59, with(pending), await, 60, ""},
			{60, with(pending), bad, 0, `it was not healthy within 1m0s: task "init" is running`}}},
		{"too late, and why", tenSeconds,
			[]look{{0, with(pending), await, 60, ""},
				{60, with(crashing(137)), bad, 0, `it was not healthy within 1m0s: task "main" exited with code 137`}}},
		{"it runs, too late to be healthy in time", tenSeconds,
			[]look{{0, with(pending), await, 60, ""}, {55, with(), await, 60, ""},
				{60, with(), bad, 0, "it was not healthy within 1m0s"}}},
		{"what was not healthy in time may become so", tenSeconds,
			[]look{{0, with(pending), await, 60, ""}, {60, with(pending), bad, 0, "it was not healthy within"},
				{61, with(pending, decided(false)), await, 0, ""}, {70, with(decided(false)), await, 80, ""}, {80,
					with(decided(false)), good, 0, ""}}},
		{"there is no deadline", endless,
			[]look{{0, with(pending), await, 0, ""}, {7200, with(pending), await, 0, ""}}},
		{"waiting for storage stops the deadline", tenSeconds,
			[]look{{0, with(waitsFor("x")), await, 0, ""}, {600, with(waitsFor("y")), await, 0, ""},
				{601, with(pending), await, 661, ""},
				{650, with(waitsFor("z")), await, 0, ""}, {660, with(pending), await, 671, ""}, {671, with(pending),
					bad, 0,
					"it was not healthy"}}},
		{"only a person decides", manual,
			[]look{{0, with(), rest, 0, ""}, {100, with(), rest, 0, ""},
				{101, with(failed("main", 1)), bad, 0, `task "main" exited with code 1`}}},
		{"it is to stop", tenSeconds,
			[]look{{0, with(stopped), rest, 0, ""}, {100, with(stopped, failed("main", 1)), rest, 0, ""}}},
		{"it is lost", tenSeconds,
			[]look{{0, with(func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientLost }), rest, 0, ""}}},
		{"it is healthy already", tenSeconds, []look{{0, with(decided(true)), rest, 0, ""}}},
		{"its end was decided already", tenSeconds, []look{{0, with(failed("main", 1), decided(false)), rest, 0, ""}}},
		{"a batch job's alloc has no health", tenSeconds,
			[]look{{0, with(func(a *alloc.Alloc) { a.JobType = job.TypeBatch }), rest, 0, ""}}},
		{"no update block", nil, []look{{0, with(), rest, 0, ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m alloc.HealthMemory
			for _, l := range c.looks {
				v := alloc.NextHealth(
					alloc.HealthFacts{
						Now:    noon.Add(time.Duration(l.at) * time.Second),
						Alloc:  l.alloc,
						Group:  healthGroup(c.update),
						Memory: m,
					})
				if v.Do != l.do || !strings.HasPrefix(v.Reason, l.why) || (v.Reason == "") != (l.why == "") {
					t.Errorf("after %d s: %s because %q, want %s because %q", l.at, v.Do, v.Reason, l.do, l.why)
				}
				if l.until == 0 && !v.Until.IsZero() ||
					l.until > 0 && !v.Until.Equal(noon.Add(time.Duration(l.until)*time.Second)) {
					t.Errorf("after %d s: look again at %s, want second %d", l.at, v.Until, l.until)
				}
				m = v.Memory
			}
		})
	}
}

// crashing is a task between two starts.
func crashing(code int) func(*alloc.Alloc) {
	return func(a *alloc.Alloc) {
		a.TaskStates["main"] = &alloc.TaskState{
			State:    alloc.TaskPending,
			Restarts: 1,
			Events: []*alloc.TaskEvent{{Type: alloc.EventStarted}, exited(code),
				{
					Type:    alloc.EventRestarting,
					Time:    noon.UnixNano(),
					Details: map[string]string{"start_delay": "15000000000"},
				}},
		}
	}
}

// everyHealth calls fn with every combination of what the flow looks at.
func everyHealth(fn func(alloc.HealthFacts)) {
	states := []*alloc.TaskState{nil, {State: alloc.TaskPending},
		{State: alloc.TaskPending, Events: []*alloc.TaskEvent{{Type: alloc.EventStorageWaiting}}},
		{State: alloc.TaskRunning, StartedAt: noon}, {State: alloc.TaskDead}, {State: alloc.TaskDead, Failed: true}}
	healths := []*alloc.Health{nil, {Healthy: true}, {Healthy: false}}
	memories := []alloc.HealthMemory{{}, {Begun: noon.Add(-time.Hour)},
		{Begun: noon.Add(-5 * time.Second), Paused: noon.Add(-3 * time.Second)},
		{Begun: noon.Add(-20 * time.Second), Runs: "other", Since: noon.Add(-20 * time.Second)}}
	for _, desired := range []string{alloc.DesiredRun, alloc.DesiredStop, alloc.DesiredEvict} {
		for _, client := range []string{alloc.ClientPending, alloc.ClientRunning, alloc.ClientComplete,
			alloc.ClientFailed, alloc.ClientLost, alloc.ClientUnknown} {
			for _, init := range states {
				for _, main := range states {
					for _, h := range healths {
						for _, u := range []*job.UpdateStrategy{nil, tenSeconds, {HealthCheck: alloc.ManualHealth},
							{MinHealthyTime: time.Second}} {
							for _, m := range memories {
								a := &alloc.Alloc{
									JobType:       job.TypeService,
									DesiredStatus: desired,
									ClientStatus:  client,
									Health:        h,
									TaskStates:    map[string]*alloc.TaskState{},
								}
								for name, s := range map[string]*alloc.TaskState{"init": init, "main": main} {
									if s != nil {
										a.TaskStates[name] = s
									}
								}
								f := alloc.HealthFacts{
									Now:    noon,
									Alloc:  a,
									Memory: m,
									Group: &job.TaskGroup{Update: u, Tasks: []*job.Task{
										{Name: "init", Lifecycle: &job.TaskLifecycle{Hook: job.HookPrestart}}, {
											Name: "main",
										}}},
								}
								fn(f)
								f.Now = noon.Add(-30 * time.Second) // as it was seen before
								f.Memory, f.Now = alloc.NextHealth(f).Memory, noon
								fn(f)
							}
						}
					}
				}
			}
		}
	}
}

func TestHealthForEveryCombinationOfFacts(t *testing.T) {
	seen := map[alloc.HealthDo]int{}
	everyHealth(func(f alloc.HealthFacts) {
		v := alloc.NextHealth(f)
		seen[v.Do]++
		if v.Do.String() == "" {
			t.Errorf("%d has no name", v.Do)
		}
		a := f.Alloc
		main, init := a.TaskStates["main"], a.TaskStates["init"]
		runs := main != nil && main.State == alloc.TaskRunning && init != nil && init.Successful() &&
			a.ClientStatus == alloc.ClientRunning
		switch {
		case v.Do != alloc.HealthRest && (a.ServerTerminal() || a.Healthy() || f.Group.Update == nil):
			t.Fatalf("%+v is judged: %s", a, v.Do)
		case v.Do == alloc.HealthGood && (!runs || f.Now.Sub(v.Memory.Since) < f.Group.Update.MinHealthyTime):
			t.Fatalf("%+v is healthy after %s", a, f.Now.Sub(v.Memory.Since))
		case v.Do == alloc.HealthBad && (a.Unhealthy() || v.Reason == "" && !a.ClientTerminal()):
			t.Fatalf("%+v is unhealthy because %q", a, v.Reason)
		case v.Do != alloc.HealthAwait && !v.Until.IsZero(),
			v.Do == alloc.HealthAwait && !v.Until.IsZero() && !v.Until.After(f.Now):
			t.Fatalf("%+v: %s until %s", a, v.Do, v.Until)
		}
		// The same look again says the same, and the time that it named brings a decision.
		f.Memory = v.Memory
		if again := alloc.NextHealth(f); again != v {
			t.Fatalf("%+v: first %+v, then %+v", a, v, again)
		}
		if !v.Until.IsZero() {
			f.Now = v.Until
			if then := alloc.NextHealth(f); then.Do != alloc.HealthGood && then.Do != alloc.HealthBad {
				t.Fatalf("%+v: %s at the time that was named", a, then.Do)
			}
		}
	})
	if len(seen) != 4 {
		t.Errorf("seen %v", seen)
	}
}

func TestAReportAloneEndsHealthAndNeverGivesIt(t *testing.T) {
	g := healthGroup(tenSeconds)
	healthy := func(a *alloc.Alloc) { a.Health = &alloc.Health{Healthy: true} }
	for name, c := range map[string]struct {
		old, now *alloc.Alloc
		do       alloc.HealthDo
		why      string
	}{
		"more events":        {with(healthy), with(healthy), alloc.HealthRest, ""},
		"a restart":          {with(healthy), with(healthy, restarted("main")), alloc.HealthAwait, ""},
		"between two starts": {with(healthy), with(healthy, state("main", alloc.TaskPending)), alloc.HealthAwait, ""},
		"not decided yet":    {with(), with(restarted("main")), alloc.HealthRest, ""},
		"failed":             {with(), with(failed("main", 3)), alloc.HealthBad, `task "main" exited with code 3`},
		"failed after all": {with(healthy), with(healthy, failed("main", 3)), alloc.HealthBad,
			`task "main" exited with code 3`},
		"failed, once more": {with(failed("main", 3)), with(failed("main", 3)), alloc.HealthRest, ""},
		"stopped": {with(healthy),
			with(healthy, func(a *alloc.Alloc) {
				a.DesiredStatus, a.ClientStatus = alloc.DesiredStop, alloc.ClientFailed
			}), alloc.HealthRest, ""},
		"its agent stopped": {with(), with(func(a *alloc.Alloc) {
			a.ClientStatus, a.ClientDescription = alloc.ClientComplete, alloc.StoppedWithAgent
		}), alloc.HealthBad, "it was stopped together with its agent"},
		"refused before a task": {with(pending),
			with(pending, func(a *alloc.Alloc) {
				a.ClientStatus, a.ClientDescription = alloc.ClientFailed, "no room"
			}), alloc.HealthBad, "no room"},
	} {
		if do, why := alloc.HealthByReport(c.old, c.now, g); do != c.do || why != c.why {
			t.Errorf("%s: %s because %q", name, do, why)
		}
	}
}

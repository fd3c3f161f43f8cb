package alloc_test

import (
	"errors"
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

func TestAnAllocsPhaseSaysWhatTheClientStatusLeavesOpen(t *testing.T) {
	stop := func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop }
	allDead := func(a *alloc.Alloc) {
		a.ClientDescription = "unstage: the device is busy"
		for name := range a.TaskStates {
			a.TaskStates[name] = &alloc.TaskState{State: alloc.TaskDead}
		}
	}
	asNodesSay := func(a *alloc.Alloc) {
		_, a.ClientDescription = alloc.ClientState(
			alloc.AllocFacts{Tasks: []alloc.TaskView{view("main", alloc.RoleMain, stages[4])}}, false)
	}
	killed := func(then, text string) func(*alloc.Alloc) {
		return func(a *alloc.Alloc) {
			a.TaskStates["main"].Events = []*alloc.TaskEvent{{Type: alloc.EventDriver, DisplayMessage: "watch"},
				{Type: alloc.EventKilling}, {Type: then, DisplayMessage: text}}
		}
	}
	client := func(s string) func(*alloc.Alloc) { return func(a *alloc.Alloc) { a.ClientStatus = s } }
	for name, c := range map[string]struct {
		a            *alloc.Alloc
		phase, waits string
	}{
		"it runs": {with(), alloc.PhaseRunning, ""},
		"nothing is reported yet": {&alloc.Alloc{DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientPending},
			alloc.PhasePending, ""},
		"it waits for a volume": {with(waitsFor("volume db is held")), alloc.PhasePending, "volume db is held"},
		"it waits for what a template reads": {
			with(func(a *alloc.Alloc) {
				a.TaskStates["main"] = &alloc.TaskState{State: alloc.TaskPending, Events: []*alloc.TaskEvent{{
					Type:           alloc.EventTemplate,
					DisplayMessage: "waits for variable db",
					Details:        map[string]string{alloc.DetailWaits: "true"},
				}}}
			}), alloc.PhaseRunning, "waits for variable db",
		},
		"a template was rendered": {
			with(func(a *alloc.Alloc) {
				a.TaskStates["main"] = &alloc.TaskState{State: alloc.TaskPending, Events: []*alloc.TaskEvent{{
					Type:           alloc.EventTemplate,
					DisplayMessage: "Rendered it",
				}}}
			}), alloc.PhaseRunning, "",
		},
		"between two starts":     {with(crashing(1)), alloc.PhaseRestarting, ""},
		"it is to stop and runs": {with(stop), alloc.PhaseStopping, ""},
		"it is to stop and its node's disk is full": {
			with(stop, func(a *alloc.Alloc) { a.ClientDescription = alloc.NotWritten(errors.New("no space")) }),
			alloc.PhaseStopping, "its node cannot write down what is to become of it: no space",
		},
		"it is to stop and waited for a volume": {with(stop, waitsFor("volume db is held")), alloc.PhaseStopping, ""},
		"it is to stop and its shim does not answer": {
			with(stop, killed(alloc.EventDriver, "its shim has not answered")),
			alloc.PhaseStopping, "its shim has not answered",
		},
		"it is to stop and the driver said something before": {
			with(stop, killed(alloc.EventTerminated, "")), alloc.PhaseStopping, "",
		},
		"never taken up": {&alloc.Alloc{DesiredStatus: alloc.DesiredStop, ClientStatus: alloc.ClientPending},
			alloc.PhaseStopping, ""},
		"its storage is not free": {with(stop, allDead), alloc.PhaseReleasing, "unstage: the device is busy"},
		"it ended by itself":      {with(allDead), alloc.PhaseReleasing, "unstage: the device is busy"},
		"it is being released":    {with(stop, allDead, asNodesSay), alloc.PhaseReleasing, ""},
		"complete":                {with(stop, allDead, client(alloc.ClientComplete)), alloc.ClientComplete, ""},
		"failed":                  {with(failed("main", 1)), alloc.ClientFailed, ""},
		"lost":                    {with(stop, client(alloc.ClientLost)), alloc.ClientLost, ""},
		"unknown":                 {with(client(alloc.ClientUnknown)), alloc.ClientUnknown, ""},
	} {
		s := alloc.Describe(c.a, healthGroup(tenSeconds))
		if s.Phase != c.phase || s.Waits != c.waits {
			t.Errorf("%s: %q, waits for %q; want %q, %q", name, s.Phase, s.Waits, c.phase, c.waits)
		}
	}
}

func TestTroubleNamesTheTaskItsEndAndTheNextStart(t *testing.T) {
	g := healthGroup(tenSeconds)
	g.RestartPolicy = &job.RestartPolicy{Attempts: 2, Mode: job.RestartFail}
	g.Tasks[2].Resources = &job.Resources{MemoryMB: 32}
	ended := func(events ...*alloc.TaskEvent) *alloc.Alloc {
		return with(func(a *alloc.Alloc) {
			a.ClientStatus = alloc.ClientFailed
			last := &alloc.TaskEvent{Type: alloc.EventNotRestarting, DisplayMessage: "no more", FailsTask: true}
			a.TaskStates["main"] = &alloc.TaskState{State: alloc.TaskDead, Failed: true, Events: append(events, last)}
		})
	}
	for text, a := range map[string]*alloc.Alloc{
		"":                                  with(),
		`task "main" exited with code 3`:    ended(exited(3)),
		`task "main" was ended by signal 9`: ended(&alloc.TaskEvent{Type: alloc.EventTerminated, Signal: 9}),
		`task "main" ran out of memory (its limit is 32 MiB; memory in its resources raises it)`: ended(
			&alloc.TaskEvent{Type: alloc.EventTerminated, Signal: 9, Details: map[string]string{"oom_killed": "true"}}),
		`task "main" ran out of memory (its limit was 16 MiB: the node caps what memory_max in its resources asks for; ` +
			`the node's operator raises max_memory_max in the client block)`: ended(&alloc.TaskEvent{
			Type:    alloc.EventTerminated,
			Signal:  9,
			Details: map[string]string{"oom_killed": "true", "memory_cap_mb": "16"},
		}),
		`task "main": it takes 301 MiB`: ended(
			&alloc.TaskEvent{Type: alloc.EventDiskExceeded, DisplayMessage: "it takes 301 MiB", FailsTask: true},
			&alloc.TaskEvent{Type: alloc.EventTerminated, Signal: 9}),
		`task "main" ended; how is not known`: ended(
			&alloc.TaskEvent{Type: alloc.EventTerminated, DisplayMessage: "Exit Code: unknown"}),
		`task "main": no such command`: ended(
			&alloc.TaskEvent{Type: alloc.EventDriverFailure, DisplayMessage: "no such command"}),
		`task "main": no more`:           ended(&alloc.TaskEvent{Type: alloc.EventStarted}),
		`task "main" exited with code 0`: with(crashing(0)),
		`task "init" exited with code 7`: with(failed("init", 7)),
		`task "main": template: no function "nomadVar" (functions…)`: ended(
			&alloc.TaskEvent{Type: alloc.EventHookFailed, Message: `template: no function "nomadVar" (functions…)`}),
	} {
		if got := alloc.Describe(a, g); got.Trouble != text {
			t.Errorf("%q, want %q", got.Trouble, text)
		}
	}
	s := alloc.Describe(with(crashing(3)), g)
	if s.Task != "main" || !s.RestartAt.Equal(noon.Add(15*time.Second)) || s.Attempt != 2 || s.Attempts != 3 {
		t.Errorf("%+v", s)
	}
	g.RestartPolicy.Mode = job.RestartDelay
	if s := alloc.Describe(with(crashing(3)), g); s.Attempt != 2 || s.Attempts != 0 {
		t.Errorf("without an end: %+v", s)
	}
	if s := alloc.Describe(with(crashing(3), func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop }),
		nil); !s.RestartAt.IsZero() || s.Trouble == "" {
		t.Errorf("it is to stop: %+v", s)
	}
	if s := alloc.Describe(with(failed("main", 3)), nil); s.Task != "main" || !s.RestartAt.IsZero() {
		t.Errorf("without its group: %+v", s)
	}
}

package allocs

import (
	"testing"

	"berth/internal/model/alloc"
)

// TestWhatPresses: news that somebody waits for are reported at once, the others are held back for a while; of what is
// to stop the end alone presses.
func TestWhatPresses(t *testing.T) {
	is := func(status, task string) *alloc.Alloc {
		return &alloc.Alloc{ClientStatus: status, TaskStates: map[string]*alloc.TaskState{"t": {State: task}}}
	}
	with := func(edit func(*alloc.Alloc)) *alloc.Alloc {
		a := is(alloc.ClientRunning, alloc.TaskRunning)
		edit(a)
		return a
	}
	pending := is(alloc.ClientPending, alloc.TaskPending)
	running := is(alloc.ClientRunning, alloc.TaskRunning)
	failed := with(func(a *alloc.Alloc) { a.TaskStates["t"].Failed = true })
	again := with(func(a *alloc.Alloc) { a.TaskStates["t"].Restarts = 1 })
	described := with(func(a *alloc.Alloc) { a.ClientDescription = "x" })
	for name, test := range map[string]struct {
		before, now *alloc.Alloc
		stopping    bool
		want        bool
	}{
		"it was received":              {nil, pending, false, false},
		"its description is another":   {running, described, false, false},
		"it runs":                      {pending, running, false, true},
		"it runs, after a restart":     {nil, running, false, true},
		"it runs on":                   {running, running, false, false},
		"its task died":                {running, is(alloc.ClientRunning, alloc.TaskDead), false, true},
		"its task failed":              {running, failed, false, true},
		"its task runs anew":           {running, again, false, true},
		"its task died as it was to":   {running, is(alloc.ClientRunning, alloc.TaskDead), true, false},
		"it stops before it is said":   {pending, running, true, false},
		"it failed":                    {running, is(alloc.ClientFailed, alloc.TaskDead), false, true},
		"it is complete as it was to":  {running, is(alloc.ClientComplete, alloc.TaskDead), true, true},
		"it failed when it was to end": {running, is(alloc.ClientFailed, alloc.TaskDead), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := presses(test.before, test.now, test.stopping); got != test.want {
				t.Errorf("it presses: %v, want %v", got, test.want)
			}
		})
	}
}

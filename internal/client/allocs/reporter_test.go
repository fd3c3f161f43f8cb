package allocs

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/allocrunner"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
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
			if got := alloc.Presses(test.before, test.now, test.stopping); got != test.want {
				t.Errorf("it presses: %v, want %v", got, test.want)
			}
		})
	}
}

// TestWhoIsOnItsWay: what starts or ends is reported when it arrives, unless what it did last stands in its way.
func TestWhoIsOnItsWay(t *testing.T) {
	pending, waiting := alloc.ClientPending, alloc.EventStorageWaiting
	is := func(status string, events ...string) *alloc.Alloc {
		s := &alloc.TaskState{}
		for _, e := range events {
			s.Events = append(s.Events, &alloc.TaskEvent{Type: e})
		}
		return &alloc.Alloc{ClientStatus: status, TaskStates: map[string]*alloc.TaskState{"t": s}}
	}
	for name, test := range map[string]struct {
		now            *alloc.Alloc
		stopping, want bool
	}{
		"it was received":        {is(pending, alloc.EventReceived), false, true},
		"it waits for storage":   {is(pending, waiting), false, false},
		"it waits no more":       {is(pending, waiting, alloc.EventTaskSetup), false, true},
		"its driver failed":      {is(pending, alloc.EventDriverFailure), false, false},
		"it runs":                {is(alloc.ClientRunning, alloc.EventStarted), false, false},
		"it is being killed":     {is(alloc.ClientRunning, alloc.EventKilling), true, true},
		"it cannot release":      {is(alloc.ClientRunning, alloc.EventKilled, alloc.EventHookFailed), true, false},
		"it stops, never began":  {is(pending), true, true},
		"it has ended":           {is(alloc.ClientComplete, alloc.EventKilled), true, false},
		"it has ended by itself": {is(alloc.ClientFailed, alloc.EventTerminated), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.now.OnItsWay(test.stopping); got != test.want {
				t.Errorf("it is on its way: %v, want %v", got, test.want)
			}
		})
	}
}

// TestHowLongNewsAreHeldBack: an alloc on its way has time until it arrives; what stands in its way has less, from when
// it came.
func TestHowLongNewsAreHeldBack(t *testing.T) {
	begun := time.Unix(0, 0)
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	for name, test := range map[string]struct {
		standing time.Time
		want     time.Duration
	}{
		"on its way":                    {time.Time{}, 10 * time.Second},
		"in the way from the beginning": {begun, time.Second},
		"in the way after a while":      {at(5 * time.Second), 6 * time.Second},
		"in the way at the very end":    {at(9500 * time.Millisecond), 10 * time.Second},
	} {
		n := news{since: begun, standing: test.standing}
		if got := n.due(time.Second, 10*time.Second); !got.Equal(at(test.want)) {
			t.Errorf("%s: due after %s, want %s", name, got.Sub(begun), test.want)
		}
	}
}

// TestReportsOfManyTasksGoInParts: what has come together of more tasks than a message has room for, whatever they say,
// is not sent in one, and what is left of it is still to be sent.
func TestReportsOfManyTasksGoInParts(t *testing.T) {
	table := NewTable(t.TempDir(), &localstate.Loaded{}, slog.New(slog.DiscardHandler))
	p := newReporter(Config{Holdings: NewHoldings(table, nil, nil)})
	g := &job.TaskGroup{Name: "g"}
	for i := range job.MaxTasks.Max {
		g.Tasks = append(g.Tasks, &job.Task{Name: fmt.Sprint("t", i)})
	}
	j := &job.Job{ID: "web", TaskGroups: []*job.TaskGroup{g}}
	batch := []ids.Alloc{"gone", "a", "b", "c", "d", "e"}
	for _, id := range batch[1:] {
		bundle := alloc.Bundle{Job: j, Alloc: &alloc.Alloc{ID: id, Job: j.ID, TaskGroup: "g"}}
		r, err := newRunner(allocrunner.Config{
			Record: &localstate.Alloc{Bundle: bundle},
			Log:    slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		table.byID[id] = r
	}
	sent := p.reports(batch)
	if n := len(sent); n != 3 || sent[0].ID != "a" || len(sent[0].TaskStates) != job.MaxTasks.Max {
		t.Errorf("%d go at once", n)
	}
	if p.idle() || p.dirty["d"] == nil || p.dirty["e"] == nil || len(p.dirty) != 2 {
		t.Errorf("left are %v", p.dirty)
	}
}

package allocrunner_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a shim that knows a later attempt of a task than the node's record, when the task is started, then it takes a
// new number, and nothing is counted as a failure.
func TestAnAttemptThatIsOverTakesANewNumber(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.group().RestartPolicy = &job.RestartPolicy{Attempts: 0, Mode: job.RestartFail}
		b.mock.Fail = func(cfg *driver.TaskConfig) error {
			if cfg.Attempt <= 4 {
				return fault.Note(&driver.AttemptOver{Task: "db", Attempt: cfg.Attempt, Newest: 4}, "start", "task db")
			}
			return nil
		}
		b.start()
		b.alive("db.5")
		b.status(alloc.ClientRunning)
		if s := b.r.Report().TaskStates["db"]; s.Restarts != 0 || s.Failed {
			t.Errorf("counted: %+v", s)
		}
		b.end()
	})
}

// Given a task that is being stopped, when the agent dies and the task ends by the signal meanwhile, then the next
// agent takes that for the end that was asked for, not for a failure of the task, whichever of its parts is the first
// to look.
func TestAnEndThatWasAskedForIsNoFailureAfterARestart(t *testing.T) {
	for range 300 {
		story(t, askedEnd)
	}
}

func askedEnd(t *testing.T) {
	b := newBench(t, tsk("db", map[string]any{"ignore_signals": true}, func(t *job.Task) { t.KillTimeout = time.Hour }))
	b.group().RestartPolicy = &job.RestartPolicy{Attempts: 0, Mode: job.RestartFail}
	b.start()
	b.stop()
	b.after(time.Minute)
	b.alive("db.1")
	b.end()
	b.mock.Exit("db", driver.ExitResult{Signal: 15})
	b.start()
	b.after(time.Second)
	b.status(alloc.ClientComplete)
	if got := b.events("db", alloc.EventNotRestarting); len(got) > 0 {
		t.Errorf("the restart policy was asked: %q", got)
	}
	b.end()
}

// Given a task that cannot be stopped, then the log says so, with the reason, as long as it lasts.
func TestAStopThatFailsIsInTheLog(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.start()
		b.mock.SetStopErr(fault.New(fault.Internal, "kill", "process db.1", "bad file descriptor"))
		b.stop()
		b.after(10 * time.Minute)
		lines := slices.DeleteFunc(strings.Split(b.lines.String(), "\n"), func(l string) bool {
			warned := strings.Contains(l, "level=WARN") && strings.Contains(l, "task=db")
			return !warned || !strings.Contains(l, "bad file descriptor")
		})
		if len(lines) < 10 || len(lines) > 40 {
			t.Errorf("%d lines in ten minutes:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		b.mock.SetStopErr(nil)
		b.after(time.Minute)
		b.status(alloc.ClientComplete)
		b.end()
	})
}

// Given an agent that died in the start of a task, when the next one starts, then it asks for the same attempt again:
// the process may run already.
func TestAStartThatWasCutOffIsTriedAsTheSameAttempt(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.store.tasks["db"] = &localstate.Task{
			State:    alloc.TaskState{State: alloc.TaskPending},
			Attempt:  3,
			Starting: true,
		}
		b.start()
		b.alive("db.3")
		b.end()
	})
}

// Given a batch task that ended well, when the agent dies after the shim forgot it and before that was written down,
// then the next agent still knows how it ended: work that is done is not done again.
func TestAnEndIsWrittenDownBeforeItIsForgotten(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("migrate", map[string]any{"run_for": "1m"}))
		b.job.Type = job.TypeBatch
		b.start()
		b.after(30 * time.Second)
		b.store.mu.Lock()
		died := *b.store.alloc
		b.store.fail = func(_ string, rec *localstate.Task) error { // the agent does not live to write it
			if rec.Handle == nil {
				return fault.New(fault.Internal, "write", "store", "the agent is dead")
			}
			return nil
		}
		b.store.mu.Unlock()
		b.after(time.Minute)
		b.end()
		b.store.alloc, b.store.fail = &died, nil
		b.start()
		b.after(time.Hour)
		b.status(alloc.ClientComplete)
		if log := b.mock.Log(); !slices.Equal(log, []string{"start migrate.1"}) {
			t.Errorf("the driver received: %v", log)
		}
		b.end()
	})
}

// Given a task that was told to end, when the agent dies and the next one waits for the group's shutdown_delay again,
// then a task that ends meanwhile is not started anew in an alloc that is to stop.
func TestWhatIsToStopIsNotStartedAgain(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("db", map[string]any{"ignore_signals": true}, func(t *job.Task) { t.KillTimeout = time.Hour }))
		b.group().ShutdownDelay = time.Minute
		b.start()
		b.stop()
		b.after(2 * time.Minute)
		b.end()
		b.start()
		b.mock.Exit("db", driver.ExitResult{Signal: 9})
		b.after(2 * time.Minute)
		b.status(alloc.ClientComplete)
		if log := b.mock.Log(); slices.Contains(log, "start db.2") {
			t.Errorf("the driver received: %v", log)
		}
		b.end()
	})
}

// Given an alloc whose tasks have ended and whose end cannot be written down, because the disk is full, then it is not
// said to be complete, and its description and its last event say why; when there is space again it is complete.
func TestAnEndThatCannotBeWrittenSaysWhy(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		full := fault.New(fault.Exhausted, "write store", "/data/client.db", "no space left on device")
		fill := sync.OnceFunc(func() { b.store.setFull(full) })
		b.store.saving = func(rec *localstate.Alloc) {
			if rec.Released {
				fill()
			}
		}
		b.start()
		b.alive("db.1")
		b.stop()
		b.after(time.Minute)
		report := b.r.Report()
		events := report.TaskStates["db"].Events
		last := events[len(events)-1]
		if report.ClientStatus != alloc.ClientRunning || report.ClientDescription != alloc.NotWritten(full) ||
			last.Type != alloc.EventNotWritten || last.DisplayMessage != alloc.NotWritten(full) {
			t.Errorf("it says %s, %q; its last event: %q", report.ClientStatus, report.ClientDescription,
				last.DisplayMessage)
		}
		b.store.setFull(nil)
		b.after(time.Minute)
		b.status(alloc.ClientComplete)
		if got := b.r.Report().ClientDescription; strings.Contains(got, "no space left") {
			t.Errorf("it still says %q", got)
		}
		b.end()
	})
}

package allocrunner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"berth/internal/client/hook"
	"berth/internal/model/job"
)

// leaver takes its time to have a task found no more.
type leaver struct {
	begun, ended time.Time
	saw          func() []string
	log          []string
}

// Name implements hook.Hook.
func (*leaver) Name() string { return "leaver" }

// Leave implements hook.Leaver.
func (l *leaver) Leave(context.Context, *hook.Task) {
	l.begun = time.Now()
	time.Sleep(time.Second)
	l.ended, l.log = time.Now(), l.saw()
}

// TestATaskIsFoundNoMoreBeforeItIsSignalled: given a task with a shutdown_delay, when it is stopped, then it is taken
// out of where others find it first, at once; when that is done its delay begins, and the signal comes after both.
func TestATaskIsFoundNoMoreBeforeItIsSignalled(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("web", nil, func(t *job.Task) {
			t.ShutdownDelay, t.KillSignal = 2*time.Second, "SIGTERM"
		}))
		l := &leaver{saw: func() []string { return slices.Clone(b.mock.Log()) }}
		b.tasks = append(b.tasks, l)
		b.start()
		asked := time.Now()
		b.stop()
		const signal = "stop web.1 SIGTERM"
		b.after(2900 * time.Millisecond) // a second of the leaver, and two of the delay but for a moment
		if l.begun.Sub(asked) > 100*time.Millisecond || l.ended.IsZero() || slices.Contains(l.log, signal) {
			t.Errorf("it leaves %s after the stop, and then was done: %q", l.begun.Sub(asked), l.log)
		}
		if log := b.mock.Log(); slices.Contains(log, signal) {
			t.Errorf("its delay does not begin when it is found no more: %q", log)
		}
		b.after(time.Second)
		if log := b.mock.Log(); !slices.Contains(log, signal) {
			t.Errorf("it is not signalled: %q", log)
		}
		b.end()
	})
}

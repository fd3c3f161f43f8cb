package allocrunner_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Given an alloc that may run for an hour, when the agent is away in the midst, then it is stopped an hour after its
// first task started: by name, once, not restarted, with its poststop task; and it has failed.
func TestAnAllocRunsNoLongerThanItMay(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("work", nil), tsk("after", map[string]any{"run_for": "1s"}, func(task *job.Task) {
			task.Lifecycle = &job.TaskLifecycle{Hook: job.HookPoststop}
		}))
		b.job.Type = job.TypeBatch
		b.group().MaxRunDuration = new(time.Hour)
		b.start()
		b.after(40 * time.Minute)
		b.end()
		b.after(10 * time.Minute)
		b.start()
		b.after(9 * time.Minute)
		b.status(alloc.ClientRunning)
		b.after(10 * time.Minute)
		b.status(alloc.ClientFailed)
		b.alive()
		want := []string{`Task "work" is stopped: the allocation has run for 1h0m0s, as long as its group's ` +
			`max_run_duration allows`}
		if got := b.events("work", alloc.EventOverdue); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		states := b.r.Report().TaskStates
		if st := states["work"]; st.Restarts != 0 || !st.Failed {
			t.Errorf("work: %+v", st)
		}
		if st := states["after"]; st.StartedAt.IsZero() || st.Failed {
			t.Errorf("after: %+v", st)
		}
		b.end()
	})
}

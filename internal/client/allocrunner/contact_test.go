package allocrunner_test

import (
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Given a group that its node ends when its servers do not answer for ten minutes, when they answer now and then, then
// it runs on; when they do not, then its tasks end in their order, by name, and are not restarted, and the end outlives
// the agent.
func TestTheNodeEndsWhatItsServersDoNotAskAbout(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil), tsk("clean", map[string]any{"run_for": "5s"},
			lifecycleOf(job.HookPoststop, false)), tsk("proxy", nil, lifecycleOf(job.HookPrestart, true)))
		b.group().Disconnect = &job.Disconnect{StopOnClientAfter: new(10 * time.Minute), Replace: true}
		var last atomic.Pointer[time.Time] // the runner reads it when it likes
		answer := func() { last.Store(new(time.Now())) }
		answer()
		b.contact = func() time.Time { return *last.Load() }
		b.start()
		for range 6 {
			b.after(9 * time.Minute)
			b.alive("db.1", "proxy.1")
			answer()
		}
		b.after(10*time.Minute - time.Second)
		b.alive("db.1", "proxy.1")
		b.after(2 * time.Second)
		b.alive("clean.1")
		b.after(5 * time.Second)
		b.status(alloc.ClientComplete)
		const says = "the servers have not answered for 10m0s, as long as stop_on_client_after allows"
		if got := b.events("db", alloc.EventKilling); len(got) != 1 || got[0] != says+": Sent interrupt. Waiting 5s "+
			"before force killing" {
			t.Errorf("it says %q", got)
		}
		b.end()
		answer()
		b.start()
		b.after(time.Hour)
		b.alive()
		b.end()
	})
}

// A group that says nothing of it runs on without its servers.
func TestWithoutItsServersAGroupRunsOn(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		began := time.Now()
		b.contact = func() time.Time { return began }
		b.start()
		b.after(1000 * time.Hour)
		b.alive("db.1")
		b.end()
	})
}

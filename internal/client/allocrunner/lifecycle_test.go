package allocrunner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// whole is a group with a task in every place of the lifecycle, and two main tasks, of which one leads.
func whole(t *testing.T) *bench {
	t.Helper()
	lead := tsk("lead", nil)
	lead.Leader = true
	return newBench(t, tsk("clean", map[string]any{"run_for": "2s"}, lifecycleOf(job.HookPoststop, false)),
		tsk("log", nil, lifecycleOf(job.HookPoststart, true)),
		tsk("hello", map[string]any{"run_for": "1s"}, lifecycleOf(job.HookPoststart, false)),
		tsk("work", nil), lead,
		tsk("proxy", nil, lifecycleOf(job.HookPrestart, true)),
		tsk("init", map[string]any{"run_for": "3s"}, lifecycleOf(job.HookPrestart, false)))
}

// order is what the driver was told to begin and to end since a point of its log, without signals.
func order(b *bench, from int) string {
	var out []string
	for _, line := range b.mock.Log()[from:] {
		if step := strings.Join(strings.Fields(line)[:2], " "); !strings.HasPrefix(step, "recover") {
			out = append(out, step)
		}
	}
	return strings.Join(out, ", ")
}

// inOrder expects that each of the steps comes, and after those that are named before it in another list.
func inOrder(t *testing.T, got string, waves ...[]string) {
	t.Helper()
	steps := strings.Split(got, ", ")
	n := 0
	for _, wave := range waves {
		if n+len(wave) > len(steps) {
			t.Fatalf("%q lacks %q", got, wave)
		}
		part := slices.Sorted(slices.Values(steps[n : n+len(wave)]))
		if !slices.Equal(part, slices.Sorted(slices.Values(wave))) {
			t.Fatalf("%q: %q come where %q should", got, part, wave)
		}
		n += len(wave)
	}
	if n != len(steps) {
		t.Errorf("%q: more came than was to", got)
	}
}

var begin = [][]string{{"start init.1", "start proxy.1"}, {"start lead.1", "start work.1"},
	{"start hello.1", "start log.1"}}

var finish = [][]string{{"stop lead.1"}, {"stop work.1"}, {"stop log.1", "stop proxy.1"}, {"start clean.1"}}

// Given a group with all kinds of tasks, when it starts, and when it ends (stopped, because its leader ended, or a task
// failed), then its tasks come and go in the order of the lifecycle.
func TestTheWholeLifecycleOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(b *bench)
		end     func(b *bench)
		finish  [][]string
		status  string
	}{
		"stopped": {func(*bench) {}, func(b *bench) { b.stop() }, finish, alloc.ClientComplete},
		"its leader ends": {func(b *bench) {
			b.group().Task("lead").Config = map[string]any{"run_for": "10s"}
			b.job.Type = job.TypeBatch
		}, func(b *bench) { b.after(10 * time.Second) }, finish[1:], alloc.ClientComplete},
		"a task fails": {func(b *bench) {
			b.group().Task("work").Config = map[string]any{"run_for": "10s", "exit_code": 3}
			b.group().RestartPolicy = nil
		}, func(b *bench) { b.after(10 * time.Second) },
			[][]string{{"stop lead.1"}, {"stop log.1", "stop proxy.1"}, {"start clean.1"}}, alloc.ClientFailed},
		"a sidecar fails": {func(b *bench) {
			b.group().Task("proxy").Config = map[string]any{"run_for": "10s", "exit_code": 3}
			b.group().RestartPolicy = nil
		}, func(b *bench) { b.after(10 * time.Second) },
			[][]string{{"stop lead.1"}, {"stop work.1"}, {"stop log.1"}, {"start clean.1"}}, alloc.ClientFailed},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T) {
				b := whole(t)
				c.prepare(b)
				b.start()
				b.after(5 * time.Second)
				inOrder(t, order(b, 0), begin...)
				n := len(b.mock.Log())
				c.end(b)
				b.after(5 * time.Second)
				inOrder(t, ends(order(b, n)), c.finish...)
				b.status(c.status)
				b.end()
			})
		})
	}
}

// ends leaves out that a driver is told to end what has ended by itself: what it left behind.
func ends(log string) string {
	var out []string
	for _, step := range strings.Split(log, ", ") {
		if step != "stop hello.1" && step != "stop init.1" && step != "stop clean.1" {
			out = append(out, step)
		}
	}
	return strings.Join(out, ", ")
}

// Given a task before the main ones that fails, when the alloc ends for that, then no main task has started, and what
// was prepared is cleaned up.
func TestNothingComesAfterAPrestartTaskThatFails(t *testing.T) {
	story(t, func(t *testing.T) {
		b := whole(t)
		b.group().Task("init").Config = map[string]any{"run_for": "1s", "exit_code": 1}
		b.group().RestartPolicy = nil
		b.start()
		b.after(5 * time.Second)
		inOrder(t, order(b, 0), []string{"start init.1", "start proxy.1"}, []string{"stop proxy.1"},
			[]string{"start clean.1"})
		b.status(alloc.ClientFailed)
		b.end()
	})
}

// Given a group that runs, when all its tasks are told to run anew, also those that have ended, then everything ends in
// the order of the end, but for what comes after the last task, and begins again in the order of the beginning, also
// when the agent dies at any moment of it; nothing of that counts as a failure.
func TestAllTasksRunAnewInTheOrderOfTheLifecycle(t *testing.T) {
	again := [][]string{{"stop lead.1"}, {"stop work.1"}, {"stop log.1", "stop proxy.1"},
		{"start init.2", "start proxy.2"}, {"start lead.2", "start work.2"}, {"start hello.2", "start log.2"}}
	for _, died := range []time.Duration{-1, 0, 500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second} {
		t.Run(died.String(), func(t *testing.T) {
			story(t, func(t *testing.T) {
				b := whole(t)
				for _, n := range []string{"lead", "work", "proxy"} {
					b.group().Task(n).ShutdownDelay = time.Second
				}
				b.start()
				b.after(5 * time.Second)
				n := len(b.mock.Log())
				if err := b.r.Restart("", true, false); err != nil {
					t.Fatal(err)
				}
				if died >= 0 {
					b.after(died)
					b.end()
					b.start()
				}
				b.after(20 * time.Second)
				inOrder(t, order(b, n), again...)
				b.alive("lead.2", "log.2", "proxy.2", "work.2")
				b.status(alloc.ClientRunning)
				for task, s := range b.r.Report().TaskStates {
					if s.Failed {
						t.Errorf("task %s counts as failed", task)
					}
				}
				b.stop()
				b.after(20 * time.Second)
				if err := b.r.Restart("", true, false); !fault.Has(err, fault.Conflict) {
					t.Errorf("a restart of what has ended: %v", err)
				}
				b.end()
			})
		})
	}
}

// Given tasks that are to run anew, when one of them ends by itself before its turn to end, seen by an agent or by
// none, then it runs anew like the others, and has not failed.
func TestATaskThatEndsMeanwhileRunsAnewAllTheSame(t *testing.T) {
	for _, died := range []bool{false, true} {
		story(t, func(t *testing.T) {
			lead := tsk("lead", nil)
			lead.Leader, lead.ShutdownDelay = true, 5*time.Second
			b := newBench(t, lead, tsk("work", map[string]any{"run_for": "10s", "exit_code": 3}))
			b.group().RestartPolicy = nil
			b.start()
			b.after(8 * time.Second)
			if err := b.r.Restart("", true, false); err != nil {
				t.Fatal(err)
			}
			if died {
				b.end()
				time.Sleep(3 * time.Second)
				b.start()
			}
			b.after(9 * time.Second)
			b.alive("lead.2", "work.2")
			b.status(alloc.ClientRunning)
			b.end()
		})
	}
}

// Given a group whose main tasks have ended, when all tasks are told to run anew while the last one cleans up, then
// that is refused: it is coming to its end.
func TestWhatComesToItsEndIsNotRunAnew(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("main", map[string]any{"run_for": "1s"}),
			tsk("clean", map[string]any{"run_for": "9s"}, lifecycleOf(job.HookPoststop, false)))
		b.job.Type = job.TypeBatch
		b.start()
		b.after(2 * time.Second)
		b.alive("clean.1")
		if err := b.r.Restart("", true, false); !fault.Has(err, fault.Conflict) {
			t.Errorf("it is told to run anew: %v", err)
		}
		b.after(9 * time.Second)
		b.status(alloc.ClientComplete)
		b.end()
	})
}

// Given a main task that waits for its restart, when the alloc is stopped and its leader takes its time, then the other
// one is not started meanwhile.
func TestWhatWaitsForItsRestartIsNotStartedWhileTheLeaderEnds(t *testing.T) {
	story(t, func(t *testing.T) {
		lead := tsk("lead", nil)
		lead.Leader, lead.ShutdownDelay = true, time.Minute
		b := newBench(t, tsk("work", map[string]any{"run_for": "1s", "exit_code": 1}), lead)
		b.start()
		b.after(2 * time.Second)
		b.alive("lead.1")
		b.stop()
		b.after(90 * time.Second)
		b.status(alloc.ClientComplete)
		if got := order(b, 0); strings.Contains(got, "start work.2") {
			t.Errorf("it was started: %q", got)
		}
		b.end()
	})
}

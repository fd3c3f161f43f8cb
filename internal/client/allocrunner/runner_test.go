package allocrunner_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocrunner"
	"berth/internal/client/drivermanager"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
)

const allocID ids.Alloc = "11111111-2222-4333-8444-555555555555"

// memory is a store that forgets nothing, until it is told to fail.
type memory struct {
	mu    sync.Mutex
	alloc *localstate.Alloc
	tasks map[string]*localstate.Task
	fail  func(task string, rec *localstate.Task) error
	// saving is called before an alloc's record is written; nil: nothing is.
	saving func(*localstate.Alloc)
	// full is why no alloc's record can be written; nil: it can.
	full error
}

func (m *memory) PutAlloc(a *localstate.Alloc) error {
	if m.saving != nil {
		m.saving(a)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full != nil {
		return m.full
	}
	c := *a
	m.alloc = &c
	return nil
}

func (m *memory) setFull(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = why
}

func (m *memory) PutTask(_ ids.Alloc, task string, t *localstate.Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(task, t); err != nil {
			return err
		}
	}
	c := *t
	m.tasks[task] = &c
	return nil
}

// scripted is an alloc hook that does what a test says.
type scripted struct {
	name string
	b    *bench
	pre  func(ctx context.Context, a *hook.Alloc) error
	post func(ctx context.Context, a *hook.Alloc) error
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Prerun(ctx context.Context, a *hook.Alloc) error {
	s.b.say("pre " + s.name)
	if s.pre != nil {
		return s.pre(ctx, a)
	}
	return nil
}

func (s *scripted) Postrun(ctx context.Context, a *hook.Alloc) error {
	s.b.say("post " + s.name)
	if s.post != nil {
		return s.post(ctx, a)
	}
	return nil
}

// bench runs one alloc over several lives of the agent, in fake time.
type bench struct {
	t     *testing.T
	mock  *mock.Driver
	store *memory
	job   *job.Job
	hooks []hook.Hook
	tasks []hook.Hook
	mu    sync.Mutex
	log   []string
	begun time.Time
	lines bytes.Buffer // of the agent's log
	r     *allocrunner.Runner
	end   func()
	// contact is when the servers answered last; nil: they always do.
	contact func() time.Time
}

func newBench(t *testing.T, tasks ...*job.Task) *bench {
	return &bench{
		t:     t,
		mock:  mock.New(),
		begun: time.Now(),
		store: &memory{tasks: map[string]*localstate.Task{}},
		job: &job.Job{
			ID:   "j",
			Name: "j",
			Type: job.TypeService,
			TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: tasks,
				RestartPolicy: &job.RestartPolicy{
					Attempts: 2,
					Interval: 5 * time.Minute,
					Delay:    10 * time.Second,
					Mode:     job.RestartFail,
				}}},
		},
	}
}

// Node implements taskrunner.Host.
func (b *bench) Node() *node.Node {
	return &node.Node{ID: "n", Name: "n1", Attributes: map[string]string{"kernel.name": "linux"}}
}

// AllocChanged implements allocrunner.Owner.
func (b *bench) AllocChanged(ids.Alloc) {}

func (b *bench) say(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, line)
}

func (b *bench) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

func (b *bench) group() *job.TaskGroup { return b.job.TaskGroups[0] }

func (b *bench) scripted(name string) *scripted {
	s := &scripted{name: name, b: b}
	b.hooks = append(b.hooks, s)
	return s
}

// start begins an agent run.
func (b *bench) start() { b.startWith(nil) }

// startWith begins the first agent run with a record of the test's own.
func (b *bench) startWith(first *localstate.Alloc) {
	b.t.Helper()
	drivers, err := drivermanager.New(
		drivermanager.Config{Drivers: []driver.Driver{b.mock}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	rec, restored := b.store.alloc, b.store.alloc != nil
	if first != nil {
		rec = first
	} else if rec == nil {
		rec = &localstate.Alloc{Bundle: alloc.Bundle{Job: b.job, Alloc: &alloc.Alloc{
			ID:            allocID,
			Name:          "j.g[0]",
			Job:           "j",
			TaskGroup:     "g",
			DesiredStatus: alloc.DesiredRun,
			Resources:     alloc.Resources{Tasks: map[string]alloc.TaskResources{}},
		}}}
		if err := b.store.PutAlloc(rec); err != nil {
			b.t.Fatal(err)
		}
	}
	r, err := allocrunner.New(allocrunner.Config{
		Record:     rec,
		Tasks:      b.store.tasks,
		Restored:   restored,
		Dir:        allocdir.New("/nowhere", allocID),
		Store:      b.store,
		Host:       b,
		Region:     "global",
		Drivers:    drivers,
		AllocHooks: b.hooks,
		TaskHooks:  b.tasks,
		Owner:      b,
		Contact:    b.contact,
		Log:        slog.New(slog.NewTextHandler(io.MultiWriter(b.t.Output(), &b.lines), nil)),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.r = r
	ctx, cancel := context.WithCancel(b.t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("alloc", func() error { return r.Run(gctx) })
	b.end = func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.t.Errorf("runner: %v", err)
		}
	}
	synctest.Wait()
}

// after lets time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) stop() {
	bundle := b.r.Bundle()
	a := *bundle.Alloc
	a.DesiredStatus = alloc.DesiredStop
	b.commit(b.r.Update(alloc.Bundle{Alloc: &a, Job: bundle.Job}, b.r.Received()))
	synctest.Wait()
}

// commit has the runner take over what the servers' state says of it.
func (b *bench) commit(c allocrunner.Change) {
	b.t.Helper()
	err := allocrunner.Commit([]allocrunner.Change{c}, func(recs []*localstate.Alloc) error {
		return b.store.PutAlloc(recs[0])
	})
	if err != nil {
		b.t.Error(err)
	}
}

func (b *bench) status(want string) {
	b.t.Helper()
	if got := b.r.Report(); got.ClientStatus != want {
		b.t.Fatalf("after %s the alloc is %s (%s), want %s; driver: %v", time.Since(b.begun), got.ClientStatus,
			got.ClientDescription, want, b.mock.Log())
	}
}

func (b *bench) alive(want ...string) {
	b.t.Helper()
	got := b.mock.Alive()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Fatalf("after %s alive: %v, want %v; driver: %v", time.Since(b.begun), got, want, b.mock.Log())
	}
}

// events tells the texts of a task's events of a type.
func (b *bench) events(task, kind string) (texts []string) {
	for _, e := range b.r.Report().TaskStates[task].Events {
		if e.Type == kind {
			texts = append(texts, e.DisplayMessage)
		}
	}
	return texts
}

func tsk(name string, config map[string]any, edits ...func(*job.Task)) *job.Task {
	t := &job.Task{Name: name, Driver: "mock_driver", Config: config, KillTimeout: 5 * time.Second}
	for _, e := range edits {
		e(t)
	}
	return t
}

func lifecycleOf(hook string, sidecar bool) func(*job.Task) {
	return func(t *job.Task) { t.Lifecycle = &job.TaskLifecycle{Hook: hook, Sidecar: sidecar} }
}

// story runs a test in fake time.
func story(t *testing.T, fn func(t *testing.T)) { synctest.Test(t, fn) }

func TestTasksRunInTheOrderOfTheirLifecycle(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("main", nil),
			tsk("init", map[string]any{"run_for": "3s"}, lifecycleOf(job.HookPrestart, false)),
			tsk("proxy", nil, lifecycleOf(job.HookPrestart, true)), tsk("after", map[string]any{"run_for": "1s"},
				lifecycleOf(job.HookPoststart, false)),
			tsk("clean", map[string]any{"run_for": "2s"}, lifecycleOf(job.HookPoststop, false)))
		b.start()
		b.alive("init.1", "proxy.1")
		b.status(alloc.ClientRunning)
		b.after(3 * time.Second)
		b.alive("proxy.1", "main.1", "after.1")
		b.after(time.Second)
		b.alive("proxy.1", "main.1")

		b.stop()
		b.alive("clean.1")
		b.after(2 * time.Second)
		b.status(alloc.ClientComplete)
		want := []string{"stop main.1 SIGINT", "stop proxy.1 SIGINT", "start clean.1"}
		if got := b.mock.Log(); !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("the end: %v", got)
		}
		b.end()
	})
}

func TestAFailingTaskRestartsByItsPolicyAndThenTheAllocFails(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("bad", map[string]any{"run_for": "1s", "exit_code": 3}), tsk("good", nil))
		b.start()
		b.after(2 * time.Second)
		b.alive("good.1")
		b.status(alloc.ClientRunning)
		b.after(13 * time.Second) // 10 s and at most a quarter
		if got := len(b.events("bad", alloc.EventRestarting)); got != 2 {
			t.Errorf("%d restarts within the policy, want 2", got)
		}
		b.after(time.Minute)
		b.status(alloc.ClientFailed)
		b.alive()
		if got := b.events("good", alloc.EventSiblingFailed); len(got) != 1 || got[0] != `Task's sibling "bad" failed` {
			t.Errorf("the sibling shows %q", got)
		}
		if got := b.events("bad", alloc.EventNotRestarting); len(got) != 1 ||
			!strings.Contains(got[0], "Exceeded allowed attempts 2") {
			t.Errorf("the end is shown as %q", got)
		}
		if st := b.r.Report().TaskStates["bad"]; st.Restarts != 2 || !st.Failed {
			t.Errorf("state: %+v", st)
		}
		b.end()
	})
}

func TestABatchTaskThatEndsWellIsComplete(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("once", map[string]any{"run_for": "1s"}))
		b.job.Type = job.TypeBatch
		b.start()
		b.after(time.Second)
		b.status(alloc.ClientComplete)
		b.end()
	})
}

func TestWaitingForStorageIsNeitherFailureNorRestart(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.group().Update = &job.UpdateStrategy{MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}
		var ready atomic.Bool
		b.scripted("volumes").pre = func(context.Context, *hook.Alloc) error {
			if ready.Load() {
				return nil
			}
			return fault.New(fault.NotReady, "", `volume "db"`, "it is held by another allocation")
		}
		b.start()
		b.after(20 * time.Minute)
		b.status(alloc.ClientPending)
		report := b.r.Report()
		if !strings.Contains(report.ClientDescription, "held by another") {
			t.Errorf("while waiting: %q", report.ClientDescription)
		}
		// The servers see in the report that the time does not count against the deadline of its health.
		report.DesiredStatus = alloc.DesiredRun
		look := alloc.NextHealth(
			alloc.HealthFacts{
				Now:    time.Now(),
				Alloc:  report,
				Group:  b.group(),
				Memory: alloc.HealthMemory{Begun: time.Now().Add(-20 * time.Minute)},
			})
		if look.Do != alloc.HealthAwait || look.Memory.Paused.IsZero() {
			t.Errorf("the servers look at it and %s, paused since %s", look.Do, look.Memory.Paused)
		}
		if got := b.events("db", alloc.EventStorageWaiting); len(got) != 1 {
			t.Errorf("one reason makes one event, got %q", got)
		}
		ready.Store(true)
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		if st := b.r.Report().TaskStates["db"]; st.Restarts != 0 {
			t.Errorf("%d restarts", st.Restarts)
		}
		b.end()
	})
}

// Given an alloc that has waited for one thing, when that is there and the next takes its time without a word, then
// nothing is reported as its reason any more; the same of its release.
func TestAReasonEndsWithWhatItWasOf(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		var there, passed, released, quiet atomic.Bool
		until := func(ready *atomic.Bool) func(context.Context, *hook.Alloc) error {
			return func(context.Context, *hook.Alloc) error {
				if ready.Load() {
					return nil
				}
				return fault.New(fault.NotReady, "", `volume "db"`, "it is held by another allocation")
			}
		}
		silent := func(ready *atomic.Bool) func(context.Context, *hook.Alloc) error {
			return func(ctx context.Context, _ *hook.Alloc) error {
				for !ready.Load() && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				return ctx.Err()
			}
		}
		first, second := b.scripted("first"), b.scripted("second")
		first.pre, second.pre = until(&there), silent(&passed)
		second.post, first.post = until(&released), silent(&quiet)
		b.start()
		b.after(time.Minute)
		says := func(what, when string) {
			t.Helper()
			if got := b.r.Report().ClientDescription; strings.Contains(got, "held by another") != (what != "") {
				t.Errorf("%s it says %q", when, got)
			}
		}
		says("why", "while it waits")
		there.Store(true)
		b.after(time.Minute)
		says("", "when what it waited for is there")
		passed.Store(true)
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		b.stop()
		b.after(time.Minute)
		says("why", "while its release waits")
		released.Store(true)
		b.after(time.Minute)
		says("", "when that is released")
		quiet.Store(true)
		b.end()
	})
}

// Given a start that its node refuses for what the task asks for, then that is reported as permanent; a
// start that failed for another reason, or of a task that has run, is not.
func TestWhatANodeWillNeverStartIsReportedAsUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		starts int
		err    error
		unfit  bool
	}{
		"a command that does not exist": {0, fault.New(fault.Invalid, "", "command", "not found"), true},
		"a user that is denied":         {0, fault.New(fault.Denied, "", "user", "denied"), true},
		"a file that is gone for now":   {0, fault.New(fault.NotFound, "", "cgroup", "not found"), false},
		"a node without memory":         {0, fault.New(fault.Exhausted, "", "fork", "no memory"), false},
		"a command that it has removed": {1, fault.New(fault.Invalid, "", "command", "not found"), false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T) {
				b := newBench(t, tsk("db", map[string]any{"run_for": "1s", "exit_code": 3}))
				begun := 0
				b.mock.Fail = func(*driver.TaskConfig) error {
					if begun++; begun > c.starts {
						return c.err
					}
					return nil
				}
				b.start()
				b.after(5 * time.Minute)
				b.status(alloc.ClientFailed)
				if got := b.r.Report().Unfit(); (got != "") != c.unfit {
					t.Errorf("the servers read %q", got)
				}
				b.end()
			})
		})
	}
}

func TestStorageThatNeverComesFailsTheAllocAfterAnHourWithTheReason(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.scripted("volumes").pre = func(ctx context.Context, a *hook.Alloc) error {
			a.Emit(&alloc.TaskEvent{Type: alloc.EventStorageWaiting, DisplayMessage: "node n2 holds it"})
			<-ctx.Done()
			return ctx.Err()
		}
		b.start()
		b.after(59 * time.Minute)
		b.status(alloc.ClientPending)
		b.after(2 * time.Minute)
		b.status(alloc.ClientFailed)
		if got := b.r.Report().ClientDescription; got != "waited 1h0m0s: node n2 holds it" {
			t.Errorf("told: %q", got)
		}
		if len(b.mock.Log()) != 0 {
			t.Errorf("the driver was used: %v", b.mock.Log())
		}
		b.end()
	})
}

func TestAFinalRefusalFailsTheAllocAndUnwindsWhatWasDone(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil), tsk("clean", nil, lifecycleOf(job.HookPoststop, false)))
		b.scripted("dir")
		b.scripted("volumes").pre = func(context.Context, *hook.Alloc) error {
			return fault.New(fault.Invalid, "mount", `volume "db"`, "the plugin refused")
		}
		b.scripted("network")
		b.start()
		b.after(time.Second)
		b.status(alloc.ClientFailed)
		if want := []string{"pre dir", "pre volumes", "post network", "post volumes",
			"post dir"}; !slices.Equal(b.said(), want) {
			t.Errorf("hooks: %v, want %v", b.said(), want)
		}
		if got := b.r.Report().ClientDescription; !strings.Contains(got, "the plugin refused") {
			t.Errorf("told: %q", got)
		}
		b.end()
	})
}

func TestCompleteIsNotSaidBeforeEverythingWasReleased(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		var stuck atomic.Bool
		stuck.Store(true)
		b.scripted("volumes").post = func(context.Context, *hook.Alloc) error {
			if stuck.Load() {
				return fault.New(fault.Busy, "unmount", `volume "db"`, "it is in use")
			}
			return nil
		}
		b.start()
		b.stop()
		b.after(10 * time.Minute)
		b.status(alloc.ClientRunning)
		b.alive()
		if gone, why := b.r.ProcessesGone(); !gone {
			t.Errorf("the processes are gone, but: %s", why)
		}
		if got := b.r.Report().ClientDescription; !strings.Contains(got, "in use") {
			t.Errorf("told: %q", got)
		}
		b.end() // the agent dies meanwhile
		b.start()
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		stuck.Store(false)
		b.after(time.Minute)
		b.status(alloc.ClientComplete)
		b.end()
	})
}

func TestStopHonoursDelaysAndKillTimeouts(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("stubborn", map[string]any{"ignore_signals": true}, func(t *job.Task) {
				t.ShutdownDelay, t.KillSignal = 2*time.Second, "SIGTERM"
			}))
		b.group().ShutdownDelay = 3 * time.Second
		b.start()
		b.stop()
		b.after(2900 * time.Millisecond)
		if got := b.events("stubborn", alloc.EventKilling); len(got) != 0 {
			t.Errorf("killed within the group's delay: %q", got)
		}
		b.after(2 * time.Second)
		if log := b.mock.Log(); slices.Contains(log, "stop stubborn.1 SIGTERM") {
			t.Errorf("signalled within the task's delay: %v", log)
		}
		b.after(5 * time.Second)
		b.alive("stubborn.1")
		b.after(time.Second)
		b.status(alloc.ClientComplete)
		b.alive()
		b.end()
	})
}

func TestARestartOfTheAgentFindsTheTaskAndCountsNothing(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.scripted("volumes")
		b.start()
		b.end()
		b.alive("db.1")
		b.mock.SetRecoverErr(fault.New(fault.Unavailable, "", "shim", "it does not answer"))
		b.start()
		b.after(time.Hour)
		b.status(alloc.ClientRunning) // recovering, not failed
		if got := b.events("db", alloc.EventDriver); len(got) != 1 || !strings.Contains(got[0], "recovering") {
			t.Errorf("told: %q", got)
		}
		b.stop() // given up: nothing is said to have ended before the process is found and gone
		b.after(time.Hour)
		b.status(alloc.ClientRunning)
		if gone, _ := b.r.ProcessesGone(); gone {
			t.Error("unknown was taken for gone")
		}
		b.mock.SetRecoverErr(nil)
		b.after(time.Minute)
		if got := b.events("db", alloc.EventRecovered); len(got) != 1 {
			t.Errorf("that it was found is reported %d times", len(got))
		}
		b.status(alloc.ClientComplete)
		b.alive()
		if got := b.r.Report().TaskStates["db"].Restarts; got != 0 {
			t.Errorf("%d restarts", got)
		}
		b.end()
	})
}

// Given a running task, when the agent starts again and its servers and plugins are not back yet, then the task is not
// said to wait for its storage; but one that has crashed, and cannot be started without it, is.
func TestARunningTaskDoesNotWaitForStorage(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		volumes := b.scripted("volumes")
		b.start()
		b.status(alloc.ClientRunning)
		b.end()
		volumes.pre = func(_ context.Context, a *hook.Alloc) error {
			return fault.New(fault.NotReady, "ask", "the servers", "they are not back")
		}
		b.start()
		b.after(time.Minute)
		b.status(alloc.ClientRunning)
		if got := b.events("db", alloc.EventStorageWaiting); len(got) != 0 {
			t.Errorf("of a task that runs: %q", got)
		}
		b.mock.Exit("db", driver.ExitResult{ExitCode: 1})
		b.after(2 * time.Minute)
		if got := b.events("db", alloc.EventStorageWaiting); len(got) != 1 {
			t.Errorf("of a task that cannot be started: %q", got)
		}
		b.end()
	})
}

func TestADeadShimIsReportedAndTheTaskRestartsByPolicy(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.start()
		b.mock.Lose("db")
		b.after(time.Second)
		if got := b.events("db", alloc.EventShimDied); len(got) != 1 {
			t.Errorf("events: %q", got)
		}
		b.after(15 * time.Second)
		b.alive("db.2")
		b.end()
		b.mock.Lose("db") // now while no agent is there
		b.start()
		b.after(15 * time.Second)
		b.alive("db.3")
		if got := b.r.Report().TaskStates["db"].Restarts; got != 2 {
			t.Errorf("%d restarts", got)
		}
		b.end()
	})
}

// Given a task whose end is unknown and whose driver says why, then that is what is said, and not that what held it has
// died.
func TestAnEndThatIsUnknownHasItsDriversReason(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.start()
		b.mock.Exit("db", driver.ExitResult{Unknown: true, Err: "its container was removed"})
		b.after(time.Second)
		if got := b.events("db", alloc.EventShimDied); len(got) != 0 {
			t.Errorf("events: %q", got)
		}
		if got := b.events("db", alloc.EventTerminated); len(got) != 1 || !strings.Contains(got[0], "was removed") {
			t.Errorf("events: %q", got)
		}
		b.end()
	})
}

func TestAHandleThatCannotBeWrittenLeavesNoProcess(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		var full atomic.Bool
		full.Store(true)
		b.store.fail = func(_ string, rec *localstate.Task) error {
			if full.Load() && rec.Handle != nil {
				return fault.New(fault.Exhausted, "write", "store", "the disk is full")
			}
			return nil
		}
		b.start()
		b.after(time.Second)
		b.alive()
		b.status(alloc.ClientPending)
		full.Store(false)
		b.after(30 * time.Second)
		b.status(alloc.ClientRunning)
		if len(b.mock.Alive()) != 1 {
			t.Errorf("alive: %v", b.mock.Alive())
		}
		b.end()
	})
}

func TestARestartThatIsAskedForDoesNotCount(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("a", nil),
			tsk("init", map[string]any{"run_for": "1s"}, lifecycleOf(job.HookPrestart, false)))
		b.start()
		b.after(2 * time.Second)
		for i := range 5 {
			if err := b.r.Restart("a", false, false); err != nil {
				t.Fatalf("restart %d: %v", i, err)
			}
			b.after(time.Second)
		}
		b.alive("a.6")
		if err := b.r.Restart("", true, false); err != nil {
			t.Fatal(err)
		}
		b.after(500 * time.Millisecond)
		b.alive("init.2")
		b.after(time.Second)
		b.alive("a.7")
		if err := b.r.Restart("nobody", false, false); !fault.Has(err, fault.NotFound) {
			t.Errorf("an unknown task: %v", err)
		}
		b.stop()
		b.after(time.Second)
		if err := b.r.Restart("a", false, false); !fault.Has(err, fault.Conflict) {
			t.Errorf("a stopped alloc: %v", err)
		}
		b.end()
	})
}

func TestPluginsRestartForEverAndRefusedStartsDoNot(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("plugin", map[string]any{"run_for": "100ms", "exit_code": 1}, func(t *job.Task) {
				t.CSIPluginConfig = &job.CSIPluginConfig{ID: "p"}
			}))
		b.start()
		b.after(10 * time.Minute)
		b.status(alloc.ClientPending)
		if got := b.r.Report().TaskStates["plugin"].Restarts; got < 15 {
			t.Errorf("%d restarts in ten minutes", got)
		}
		b.end()

		c := newBench(t, tsk("bad", map[string]any{"unknown_option": "x"}))
		c.start()
		c.after(time.Second)
		c.status(alloc.ClientFailed)
		if got := c.events("bad", alloc.EventSetupFailure); len(got) != 1 ||
			!strings.Contains(got[0], "unknown_option") {
			t.Errorf("told: %q", got)
		}
		c.end()
	})
}

func TestTheEnvironmentAndTheConfigurationAreFilledIn(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("web", map[string]any{"command": "${NOMAD_TASK_DIR}/bin on ${attr.kernel.name}, ${HOME} stays",
				"args": []any{`${env["WHO"]}`, "${meta.x}"}}, func(t *job.Task) {
				t.Env = map[string]string{"WHO": "I am ${NOMAD_ALLOC_NAME}"}
				t.Meta = map[string]string{"my-key": "v"}
			}))
		b.start()
		cfg, ok := b.mock.Config("web")
		if !ok {
			t.Fatal("it never started")
		}
		if got, want := cfg.Config["command"],
			"/nowhere/"+string(allocID)+"/web/local/bin on linux, ${HOME} stays"; got != want {
			t.Errorf("command %q, want %q", got, want)
		}
		if got := cfg.Config["args"].([]any); got[0] != "I am j.g[0]" || got[1] != "${meta.x}" {
			t.Errorf("args %q", got)
		}
		for k, want := range map[string]string{"NOMAD_META_my_key": "v", "NOMAD_META_MY_KEY": "v",
			"NOMAD_SHORT_ALLOC_ID": "11111111", "NOMAD_GROUP_NAME": "g", "NOMAD_ALLOC_INDEX": "0"} {
			if got := cfg.Env[k]; got != want {
				t.Errorf("%s = %q, want %q", k, got, want)
			}
		}
		b.end()
	})
}

func TestAnAllocThatIsToStopBeforeItBeganPreparesNothing(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.scripted("volumes")
		a := alloc.Alloc{
			ID:            allocID,
			Name:          "j.g[0]",
			Job:           "j",
			TaskGroup:     "g",
			DesiredStatus: alloc.DesiredStop,
		}
		b.store.alloc = nil
		rec := &localstate.Alloc{Bundle: alloc.Bundle{Alloc: &a, Job: b.job}}
		b.begun = time.Now()
		b.startWith(rec)
		b.after(time.Second)
		b.status(alloc.ClientComplete)
		if slices.Contains(b.said(), "pre volumes") || len(b.mock.Log()) != 0 {
			t.Errorf("hooks %v, driver %v", b.said(), b.mock.Log())
		}
		b.end()
	})
}

// Given an alloc whose tasks have ended, while it is being written down that it has released all, then nobody hears of
// that.
func TestTheEndIsSaidWhenItIsWritten(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		early := false
		b.store.saving = func(rec *localstate.Alloc) {
			if rec.Released {
				early = early || b.r.Released() || b.r.Report().ClientStatus == alloc.ClientComplete
			}
		}
		b.start()
		b.after(time.Second)
		if err := b.r.Stop("the test ends it", false); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.status(alloc.ClientComplete)
		if early || !b.r.Released() {
			t.Errorf("said before it was written: %v; said at last: %v", early, b.r.Released())
		}
		b.end()
	})
}

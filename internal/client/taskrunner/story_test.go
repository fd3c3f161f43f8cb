package taskrunner_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// bench is one task in fake time: its driver, its record, and what it says.
type bench struct {
	t      *testing.T
	job    *job.Job
	driver *mock.Driver
	hook   prestart
	r      *taskrunner.Runner
	g      *lifecycle.Group
	most   time.Duration // that the agent gives a task to end
	out    strings.Builder
	calls  int             // of the driver, that are in the transcript
	heard  map[string]bool // events that are in the transcript

	mu    sync.Mutex
	saved *localstate.Task
	all   []*localstate.Task // every record that was written
}

// prestart is a hook that answers as the story says.
type prestart struct {
	mu  sync.Mutex
	err error
}

func (*prestart) Name() string { return "scripted" }

func (p *prestart) Prestart(context.Context, *hook.Task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *prestart) answer(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Dispense implements taskrunner.Drivers.
func (b *bench) Dispense(string) (driver.Driver, error) { return b.driver, nil }

// Recover implements taskrunner.Drivers.
func (b *bench) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	return b.driver.Recover(ctx, h)
}

// SaveTask implements taskrunner.Owner.
func (b *bench) SaveTask(_ string, rec *localstate.Task) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := *rec
	b.saved = &c
	b.all = append(b.all, &c)
	return nil
}

// TaskChanged implements taskrunner.Owner.
func (*bench) TaskChanged() {}

// Node implements taskrunner.Host.
func (*bench) Node() *node.Node { return &node.Node{ID: "n"} }

// start begins an agent run.
func (b *bench) start() {
	b.run(taskrunner.Config{
		Owner:   b,
		Host:    b,
		Bundle:  alloc.Bundle{Job: b.job, Alloc: &alloc.Alloc{ID: allocID, Job: b.job.ID, TaskGroup: "g"}},
		Task:    "web",
		Dir:     allocdir.New("/nowhere", allocID),
		Drivers: b,
		Hooks:   []hook.Hook{&b.hook},
		Mounts:  new(hook.Mounts),
		Saved:   b.saved,
		Log:     slog.New(slog.DiscardHandler),

		MaxKillTimeout: b.most,
	})
}

func (b *bench) run(cfg taskrunner.Config) {
	b.r = taskrunner.New(cfg)
	g, ctx := lifecycle.NewGroup(b.t.Context())
	b.g = g
	g.Go("task", func() error { return b.r.Run(ctx) })
	b.r.AllocReady()
	b.r.Open()
}

// end ends the agent run; the process goes on.
func (b *bench) end() {
	b.g.Stop()
	if err := b.g.Wait(); err != nil {
		b.t.Error(err)
	}
}

// forget has the record say what it says between the start of a process and its answer.
func (b *bench) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rec := range b.all {
		if rec.Starting {
			b.saved = rec
		}
	}
}

var random = regexp.MustCompile(`restarting in \S+`)

// do takes a step of the story and writes down what came of it.
func (b *bench) do(what string, step func()) {
	step()
	synctest.Wait()
	fmt.Fprintf(&b.out, "> %s\n", what)
	s := b.r.State()
	for _, e := range s.Events {
		key := fmt.Sprint(e.Time, e.Type, e.DisplayMessage)
		if !b.heard[key] {
			fmt.Fprintf(&b.out, "  event  %s: %s %v\n", e.Type,
				random.ReplaceAllString(e.DisplayMessage, "restarting in a while"),
				slices.Sorted(maps.Keys(e.Details)))
		}
		b.heard[key] = true
	}
	log := b.driver.Log()
	for _, call := range slices.Compact(slices.Clone(log[b.calls:])) { // how often a call is repeated has jitter
		fmt.Fprintf(&b.out, "  driver %s\n", call)
	}
	b.calls = len(log)
	gone, why := b.r.ProcessGone()
	fmt.Fprintf(&b.out, "  state  %s, failed %t, restarts %d; process gone %t %s\n", s.State, s.Failed, s.Restarts,
		gone, why)
}

func (b *bench) after(d time.Duration) { b.do("after "+d.String(), func() { time.Sleep(d) }) }

const allocID ids.Alloc = "11111111-2222-4333-8444-555555555555"

func newBench(t *testing.T, kind string, config map[string]any) *bench {
	task := &job.Task{
		Name:        "web",
		Driver:      "mock_driver",
		Config:      config,
		KillTimeout: 5 * time.Second,
		Env:         map[string]string{},
	}
	policy := &job.RestartPolicy{
		Attempts: 1,
		Interval: 10 * time.Minute,
		Delay:    10 * time.Second,
		Mode:     job.RestartFail,
	}
	group := &job.TaskGroup{Name: "g", Count: 1, Tasks: []*job.Task{task}, RestartPolicy: policy}
	return &bench{
		t:      t,
		job:    &job.Job{ID: "j", Name: "j", Type: kind, TaskGroups: []*job.TaskGroup{group}},
		driver: mock.New(),
		heard:  map[string]bool{},
	}
}

func notReady(why string) error { return fault.New(fault.NotReady, "use", "it", why) }

func kill(b *bench) {
	b.r.Kill(taskrunner.KillOrder{Why: alloc.EventKilling, Message: "alloc is stopped"})
}

// stories stand in testdata/<name>.txt; -update writes them anew.
var stories = []struct {
	name   string
	kind   string
	config map[string]any
	tell   func(*bench)
}{
	{"exit_0", job.TypeBatch, map[string]any{"run_for": "3s"}, func(b *bench) {
		b.do("start", b.start)
		b.after(5 * time.Second)
	}},
	{"exit_1_until_the_policy_ends_it", job.TypeService, map[string]any{"run_for": "3s", "exit_code": 1},
		func(b *bench) {
			b.do("start", b.start)
			b.after(5 * time.Second)
			b.after(14 * time.Second) // the restart's delay has jitter
			b.after(30 * time.Second)
		}},
	{"prestart_waits_then_succeeds", job.TypeService, nil, func(b *bench) {
		b.hook.answer(notReady("the volume is not there"))
		b.do("start", b.start)
		b.after(time.Minute)
		b.do("the hook is ready", func() { b.hook.answer(nil) })
		b.after(time.Minute)
	}},
	{"prestart_is_refused", job.TypeService, nil, func(b *bench) {
		b.hook.answer(fault.New(fault.Invalid, "use", "it", "the job asks for what cannot be"))
		b.do("start", b.start)
		b.after(time.Hour)
	}},
	{"kill_has_the_time_that_the_agent_gives", job.TypeService, map[string]any{"ignore_signals": true}, func(b *bench) {
		b.most = 2 * time.Second
		b.do("start", b.start)
		b.do("kill", func() { kill(b) })
		b.after(4 * time.Second)
	}},
	{"kill_needs_its_timeout", job.TypeService, map[string]any{"ignore_signals": true}, func(b *bench) {
		b.do("start", b.start)
		b.do("kill", func() { kill(b) })
		b.after(4 * time.Second)
		b.after(2 * time.Second)
	}},
	{"a_stop_that_fails_is_repeated", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.driver.SetStopErr(fault.New(fault.Unavailable, "stop", "it", "the shim does not answer"))
		b.do("kill", func() { kill(b) })
		b.after(time.Minute)
		b.do("the shim answers", func() { b.driver.SetStopErr(nil) })
		b.after(time.Minute)
	}},
	{"the_agent_restarts_under_a_running_task", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("the agent ends", b.end)
		b.do("the agent starts", b.start)
		b.do("kill", func() { kill(b) })
	}},
	{"the_agent_dies_before_a_start_is_written_down", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("the agent ends", b.end)
		b.forget()
		b.do("the agent starts, and is told to kill", func() { b.start(); kill(b) })
	}},
	{"prestart_fails_for_good", job.TypeService, nil, func(b *bench) {
		b.hook.answer(&hook.Failure{
			Event: alloc.EventConsulToken,
			Final: true,
			Err:   fault.New(fault.Timeout, "get", "the token", "nobody answers"),
		})
		b.do("start", b.start)
		b.after(time.Hour)
	}},
	{"a_start_that_was_cut_off_is_refused", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("the agent ends", b.end)
		b.forget()
		b.driver.Fail = func(*driver.TaskConfig) error {
			return fault.New(fault.Invalid, "start", "it", "the driver knows no such option")
		}
		b.do("the agent starts", b.start)
	}},
	{"the_agent_restarts_while_a_task_ends", job.TypeService, map[string]any{"ignore_signals": true}, func(b *bench) {
		b.do("start", b.start)
		b.do("kill", func() { kill(b) })
		b.do("the agent ends", b.end)
		b.do("the agent starts", b.start)
		b.do("kill", func() { kill(b) })
		b.after(time.Minute)
	}},
	{"after_a_restart_the_driver_is_not_ready", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("the agent ends", b.end)
		b.driver.SetRecoverErr(notReady("the driver is not up yet"))
		b.do("the agent starts", b.start)
		b.after(time.Minute)
		b.do("the driver is ready", func() { b.driver.SetRecoverErr(nil) })
		b.after(time.Minute)
	}},
	{"a_user_restarts_and_signals", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("signal", func() {
			if err := b.r.Signal(b.t.Context(), "SIGHUP", "User requested"); err != nil {
				b.t.Error(err)
			}
		})
		b.do("restart", func() {
			if err := b.r.Restart("User requested restart", true); err != nil {
				b.t.Error(err)
			}
		})
		b.after(time.Minute)
	}},
	{"a_child_is_killed_for_memory", job.TypeService, nil, func(b *bench) {
		b.job.TaskGroups[0].Tasks[0].Resources = &job.Resources{MemoryMB: 64}
		b.do("start", b.start)
		b.after(time.Minute)
		b.do("a child is killed", func() { b.driver.OOMKill("web") })
		b.after(10 * time.Second)
		b.after(time.Hour)
		b.do("the agent ends", b.end)
		b.do("the agent starts", b.start)
		b.after(time.Minute)
		b.do("two more are killed", func() { b.driver.OOMKill("web"); b.driver.OOMKill("web") })
		b.after(time.Minute)
		b.do("restart", func() {
			if err := b.r.Restart("User requested restart", true); err != nil {
				b.t.Error(err)
			}
		})
		b.after(time.Minute)
		b.do("another child is killed", func() { b.driver.OOMKill("web") })
		b.after(time.Minute)
	}},
	{"a_crash_while_its_volume_is_suspended", job.TypeService, map[string]any{"run_for": "3s", "exit_code": 1},
		func(b *bench) {
			b.do("start", b.start)
			b.do("suspended", func() { b.r.Suspend("the servers' state was restored") })
			b.after(time.Minute)
			b.do("it is not any more", func() { b.r.Suspend("") })
		}},
	{"a_restart_is_asked_for_while_its_volume_is_suspended", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("suspended", func() { b.r.Suspend("the servers' state was restored") })
		b.do("restart", func() {
			if err := b.r.Restart("User requested restart", true); err != nil {
				b.t.Error(err)
			}
		})
		b.after(time.Minute)
		b.do("it is not any more", func() { b.r.Suspend("") })
		b.after(time.Minute)
	}},
	{"a_task_whose_volume_is_suspended_is_killed", job.TypeService, nil, func(b *bench) {
		b.do("start", b.start)
		b.do("suspended", func() { b.r.Suspend("the servers' state was restored") })
		b.do("kill", func() { kill(b) })
	}},
	{"the_driver_is_not_ready_then_fails_then_starts", job.TypeService, nil, func(b *bench) {
		answers := []error{notReady("the shim is busy"),
			fault.New(fault.Unavailable, "start", "it", "no process could be made"), nil}
		b.driver.Fail = func(*driver.TaskConfig) (err error) {
			err, answers = answers[0], answers[1:]
			return err
		}
		b.do("start", b.start)
		b.after(2 * time.Second)
		b.after(time.Minute)
	}},
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, s.kind, s.config)
				s.tell(b)
				b.end()
				path := filepath.Join("testdata", s.name+".txt")
				if *update {
					if err := os.WriteFile(path, []byte(b.out.String()), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if got := b.out.String(); got != string(want) {
					t.Errorf("it went otherwise than in %s:\n%s", path, got)
				}
			})
		})
	}
}

// Given a task that ended by itself, when the agent is killed after any of the writes since its end was known, then the
// next run comes to the same verdict, and a task that ended well does not run again.
func TestAnEndIsConcludedOnceWhereverTheAgentDies(t *testing.T) {
	for _, code := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, job.TypeBatch, map[string]any{"run_for": "3s", "exit_code": code})
			b.job.TaskGroups[0].RestartPolicy.Attempts = 0
			b.start()
			time.Sleep(time.Minute)
			b.end()
			known := slices.IndexFunc(b.all, func(rec *localstate.Task) bool { return rec.Exit != nil })
			if known < 0 || !b.saved.Over || b.saved.Attempt != 1 || b.saved.State.Failed != (code != 0) {
				t.Fatalf("the task ended as %+v, its end is known from write %d on", b.saved, known)
			}
			for i, rec := range b.all[known:] {
				b.saved = rec
				b.start()
				time.Sleep(time.Minute)
				b.end()
				if end := b.saved; !end.Over || end.Attempt != 1 || end.State.Failed != (code != 0) {
					t.Errorf("exit %d, killed after write %d of %d: attempt %d, over %t, failed %t", code, known+i+1,
						len(b.all), end.Attempt, end.Over, end.State.Failed)
				}
			}
		})
	}
}

package taskrunner_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
)

// starts is a driver that keeps what a task was started with.
type starts struct {
	*mock.Driver
	with *driver.TaskConfig
}

func (s *starts) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	s.with = cfg
	return s.Driver.Start(ctx, cfg)
}

// keeping is a bench whose driver keeps what it is given.
type keeping struct {
	*bench
	driver *starts
}

func (k *keeping) Dispense(string) (driver.Driver, error) { return k.driver, nil }

// Given a node with caps, when tasks start there, then the driver and the environment have what the node allows; one
// that asks for more processes is refused, which is permanent, by both numbers.
func TestATaskGetsWhatTheNodeAllows(t *testing.T) {
	for name, c := range map[string]struct {
		asks      alloc.TaskResources
		memoryMax int64
		pids      int64
		env       string
		refused   string
	}{
		"no bound of memory": {
			asks:      alloc.TaskResources{MemoryMB: 64, MemoryMaxMB: -1},
			memoryMax: 100,
			pids:      500,
			env:       "100",
		},
		"as much": {
			asks:      alloc.TaskResources{MemoryMB: 64, MemoryMaxMB: 99, PIDs: 500},
			memoryMax: 99,
			pids:      500,
			env:       "99",
		},
		"more processes": {
			asks:    alloc.TaskResources{MemoryMB: 64, PIDs: 501},
			refused: "501 processes and threads (pids): the node gives a task at most 500",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, job.TypeService, nil)
				k := &keeping{b, &starts{Driver: b.driver}}
				a := &alloc.Alloc{ID: allocID, Job: b.job.ID, TaskGroup: "g"}
				a.Resources.Tasks = map[string]alloc.TaskResources{"web": c.asks}
				b.run(taskrunner.Config{
					Owner:   b,
					Host:    b,
					Bundle:  alloc.Bundle{Job: b.job, Alloc: a},
					Task:    "web",
					Dir:     allocdir.New("/nowhere", allocID),
					Drivers: k,
					Hooks:   []hook.Hook{&b.hook},
					Mounts:  new(hook.Mounts),
					Caps:    driver.Caps{MemoryMaxMB: 100, PIDs: 500},
					Log:     slog.New(slog.DiscardHandler),
				})
				defer b.end()
				time.Sleep(time.Hour)
				synctest.Wait()
				with := k.driver.with
				if c.refused != "" {
					s := b.r.State()
					said := ""
					for _, e := range s.Events {
						said += " " + e.DisplayMessage
					}
					if with != nil || !s.Failed || s.Restarts != 0 || !strings.Contains(said, c.refused) {
						t.Errorf("it is %+v: %s", s, said)
					}
					return
				}
				if with == nil {
					t.Fatalf("it does not start: %+v", b.r.State())
				}
				if r := with.Resources; r.MemoryMaxMB != c.memoryMax || r.PIDs != c.pids || r.MemoryMB != 64 ||
					with.Env["NOMAD_MEMORY_MAX_LIMIT"] != c.env {
					t.Errorf("it starts with %+v, %s", r, with.Env["NOMAD_MEMORY_MAX_LIMIT"])
				}
			})
		})
	}
}

// Given a node that caps memory_max, when a task that asks for more runs out of memory, or a process of it is killed,
// then the events name the limit that was in force and who raises it; of one below the cap, its own.
func TestAKillForMemoryNamesTheLimitInForce(t *testing.T) {
	for asked, want := range map[int]string{
		300: "its limit was 100 MiB: the node caps",
		-1:  "its limit was 100 MiB: the node caps",
		99:  "its limit is 99 MiB; memory_max in its resources raises it",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, job.TypeService, map[string]any{"run_for": "150s", "exit_code": 1, "oom_killed": true})
			task := b.job.TaskGroups[0].Tasks[0]
			task.Resources = &job.Resources{MemoryMB: 64, MemoryMaxMB: asked}
			a := &alloc.Alloc{ID: allocID, Job: b.job.ID, TaskGroup: "g", ClientStatus: alloc.ClientFailed}
			a.Resources.Tasks = map[string]alloc.TaskResources{"web": {MemoryMB: 64, MemoryMaxMB: int64(asked)}}
			b.run(taskrunner.Config{
				Owner:   b,
				Host:    b,
				Bundle:  alloc.Bundle{Job: b.job, Alloc: a},
				Task:    "web",
				Dir:     allocdir.New("/nowhere", allocID),
				Drivers: b,
				Hooks:   []hook.Hook{&b.hook},
				Mounts:  new(hook.Mounts),
				Caps:    driver.Caps{MemoryMaxMB: 100},
				Log:     slog.New(slog.DiscardHandler),
			})
			defer b.end()
			time.Sleep(time.Minute)
			b.driver.OOMKill("web")
			time.Sleep(time.Minute)
			synctest.Wait()
			state := b.r.State()
			last := state.Events[len(state.Events)-1]
			if last.Type != alloc.EventOOMKill || !strings.Contains(last.DisplayMessage, want) {
				t.Errorf("asking for %d: %q, want %q", asked, last.DisplayMessage, want)
			}
			time.Sleep(31 * time.Second)
			synctest.Wait()
			state = b.r.State()
			a.TaskStates = map[string]*alloc.TaskState{"web": state}
			if said := alloc.Describe(a, b.job.TaskGroups[0]).Trouble; !strings.Contains(said, want) {
				t.Errorf("asking for %d, at its end: %q, want %q", asked, said, want)
			}
		})
	}
}

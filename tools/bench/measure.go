package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"berth/api"
)

// bundled is the storage plugin that every development agent runs.
const bundled = "local-csi"

// settled is long enough for what follows a start or a release to reach the log.
const settled = 60 * time.Millisecond

// coldStarts starts agents in new directories: until the node takes work, and until the first volume is there.
func coldStarts(ctx context.Context, r *report, binary string) error {
	var ready, first, idle, anon []float64
	for range 5 {
		begin := time.Now()
		a, err := start(binary)
		if err != nil {
			return err
		}
		if err := until(ctx, "node ready", func() error { return a.nodeReady(ctx) }); err != nil {
			return errors.Join(err, a.stop())
		}
		ready = append(ready, ms(time.Since(begin)))
		err = until(ctx, "first volume", func() error { return a.createVolume(ctx, "first") })
		first = append(first, ms(time.Since(begin)))
		if err == nil {
			time.Sleep(3 * time.Second) // idle
			rss, err1 := memory(a.cmd.Process.Pid, "status", "VmRSS")
			own, err2 := memory(a.cmd.Process.Pid, "status", "RssAnon")
			idle = append(idle, mebi(rss<<10))
			anon = append(anon, mebi(own<<10))
			err = errors.Join(err1, err2)
		}
		if err = errors.Join(err, a.stop()); err != nil {
			return err
		}
	}
	r.add(figure{
		name:    "Cold start of `berth agent -dev`: node ready",
		unit:    "ms",
		samples: ready,
		bar:     bar{text: "≤ 0.5 s", median: 500},
	})
	r.add(figure{
		name:    "Cold start of `berth agent -dev`: first volume created",
		unit:    "ms",
		samples: first,
		bar:     bar{text: "≤ 1.5 s", median: 1500},
	})
	r.add(figure{
		name:    "Idle memory of `agent -dev`, resident",
		unit:    "MiB",
		samples: idle,
		bar:     bar{text: "≤ 60 MiB", median: 60},
	})
	r.add(figure{name: "… of it anonymous", unit: "MiB", samples: anon})
	return nil
}

func (a *agent) createVolume(ctx context.Context, id string) error {
	_, _, err := a.api.Volumes().Create(ctx, &api.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             bundled,
		RequestedCapacityMin: 16 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
	}, nil)
	return err
}

// kind is a way in which a task is started.
type kind struct {
	name   string
	driver string
	user   string
	volume string
	disk   int    // MiB that its group asks for, besides the logs
	config string // of the agent
	bridge bool   // with a network of its own
}

// isolated is how most tasks are started, on a volume if one is named.
func isolated(volume string) kind { return kind{driver: "exec", volume: volume, disk: 10} }

// others are ways beside it, each with an agent that is configured for it.
var others = []kind{
	{
		name:   "`raw_exec` task as nobody",
		driver: "raw_exec",
		user:   "nobody",
		disk:   10,
		config: "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n",
	},
	{
		name:   "`exec` task whose disk of 300 MiB is an image",
		driver: "exec",
		disk:   300,
		config: "client {\n  ephemeral_disk {\n    enforce = \"image\"\n  }\n}\n",
	},
}

// sleeper is a job of tasks that do nothing.
func sleeper(id string, count int, k kind) *api.Job {
	logs := 1
	size := 1
	cpu := 5
	mem := 10
	disk := k.disk
	t := &api.Task{
		Name:      "t",
		Driver:    k.driver,
		User:      k.user,
		Config:    map[string]any{"command": "/bin/sleep", "args": []any{"100000"}},
		Resources: &api.Resources{CPU: &cpu, MemoryMB: &mem},
		LogConfig: &api.LogConfig{MaxFiles: &logs, MaxFileSizeMB: &size},
	}
	disk += logs * size
	g := &api.TaskGroup{
		Name:          "g",
		Count:         &count,
		EphemeralDisk: &api.EphemeralDisk{SizeMB: &disk},
		Tasks:         []*api.Task{t},
	}
	if k.bridge {
		g.Networks = []*api.NetworkResource{{Mode: "bridge"}}
	}
	if k.volume != "" {
		alias, where := "data", "/data"
		g.Volumes = map[string]*api.VolumeRequest{
			alias: {Type: "csi", Source: k.volume, AccessMode: "single-node-writer", AttachmentMode: "file-system"},
		}
		t.VolumeMounts = []*api.VolumeMount{{Volume: &alias, Destination: &where}}
	}
	return &api.Job{ID: &id, Name: &id, TaskGroups: []*api.TaskGroup{g}}
}

// series are the measurements of one kind of start and its release.
type series struct {
	started, running, entries, fsyncs []float64
	released                          []float64
	releaseEntries, releaseFsyncs     []float64
	start, release                    largest
}

// largest is what was written at most.
type largest struct {
	entries float64
	names   string
}

func (l *largest) look(before, after written) {
	if n := after.entries - before.entries; n > l.entries {
		l.entries, l.names = n, after.since(before)
	}
}

// starts measures jobs one after another, without and with a volume.
func starts(runs int) func(context.Context, *report, string) error {
	return func(ctx context.Context, r *report, binary string) (err error) {
		a, err := start(binary)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.stop()) }()
		if err := until(ctx, "volume", func() error { return a.createVolume(ctx, "db") }); err != nil {
			return err
		}
		if err := a.quiet(ctx); err != nil {
			return err
		}
		for _, volume := range []string{"", "db"} {
			s := &series{}
			for i := range runs + 3 {
				if i == 3 {
					*s = series{} // the first ones warm the caches
				}
				if err := a.once(ctx, s, fmt.Sprintf("job%s-%d", volume, i), isolated(volume)); err != nil {
					return err
				}
			}
			s.tell(r, volume != "")
		}
		for _, k := range others {
			if err := k.measure(ctx, r, binary, runs); err != nil {
				return err
			}
		}
		return nil
	}
}

// measure starts tasks of one kind, one after another, with an agent of their own.
func (k kind) measure(ctx context.Context, r *report, binary string, runs int) (err error) {
	a, err := startWith(binary, k.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if err := until(ctx, "node ready", func() error { return a.nodeReady(ctx) }); err != nil {
		return err
	}
	if err := a.quiet(ctx); err != nil {
		return err
	}
	s := &series{}
	for i := range runs + 3 {
		if i == 3 {
			*s = series{} // the first ones warm the caches
		}
		if err := a.once(ctx, s, fmt.Sprintf("job-%d", i), k); err != nil {
			return err
		}
	}
	if err := a.collect(ctx); err != nil {
		return err
	}
	r.add(figure{name: k.name + ": registered → started", unit: "ms", samples: s.started})
	r.add(figure{name: k.name + ": registered → API says running", unit: "ms", samples: s.running})
	return nil
}

// quiet waits until an agent that has just begun has written what it writes by itself.
func (a *agent) quiet(ctx context.Context) error {
	last := -1.0
	for range 20 {
		now, err := a.counters(ctx)
		if err != nil || now.entries == last {
			return err
		}
		last = now.entries
		time.Sleep(1500 * time.Millisecond) // longer than what is new on a node is held back
	}
	return errors.New("an agent that does nothing goes on writing to its log")
}

func (s *series) tell(r *report, volume bool) {
	kind := "`exec` task, no volume"
	start := bar{text: "30 / 100 ms", median: 30, high: 100}
	run := bar{text: "35 / 110 ms", median: 35, high: 110}
	entries := bar{text: "4, the most too", median: 4, high: 4}
	released := bar{text: "3, the most too", median: 3, high: 3}
	if volume {
		entries = bar{text: "6, the most too", median: 6, high: 6}
		released = bar{text: "4, the most too", median: 4, high: 4}
		kind = "`exec` task with a volume of the bundled plugin"
		start = bar{text: "3d + 100 ms, judged with d = 0", median: 100}
		run = start
	}
	r.add(figure{name: kind + ": registered → started", unit: "ms", samples: s.started, bar: start})
	r.add(figure{name: kind + ": registered → API says running", unit: "ms", samples: s.running, bar: run})
	r.add(figure{name: kind + ": Raft entries of a start", unit: "", samples: s.entries, bar: entries})
	r.note(kind+", the start that wrote most", s.start.names)
	r.add(figure{name: kind + ": fsyncs of the Raft log of a start", unit: "", samples: s.fsyncs})
	if volume {
		r.add(figure{
			name:    "Release: processes dead → claim free",
			unit:    "ms",
			samples: s.released,
			bar:     bar{text: "plugin time + 30 / 100 ms, judged without plugin time", median: 30, high: 100},
		})
	}
	r.add(figure{name: kind + ": Raft entries from stop to rest", unit: "", samples: s.releaseEntries, bar: released})
	r.note(kind+", the release that wrote most", s.release.names)
	r.add(figure{name: kind + ": fsyncs of the Raft log from stop to rest", unit: "", samples: s.releaseFsyncs})
}

// collect has what is over forgotten, and waits until the node has removed it: the disks of allocs stay mounted until
// then.
func (a *agent) collect(ctx context.Context) error {
	if err := a.api.Cluster().CollectGarbage(ctx); err != nil {
		return err
	}
	return until(ctx, "no directory of an alloc", func() error {
		left, err := filepath.Glob(filepath.Join(a.dir, "d/alloc/*-*"))
		if err == nil && len(left) > 1 { // the bundled plugin's stays
			err = fmt.Errorf("%d are left", len(left))
		}
		return err
	})
}

// once runs one job from its registration to its end.
func (a *agent) once(ctx context.Context, s *series, id string, k kind) error {
	time.Sleep(settled)
	before, err := a.counters(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: sleeper(id, 1, k)}, nil); err != nil {
		return err
	}
	running, err := a.awaitAlloc(ctx, id, api.AllocClientStatusRunning)
	if err != nil {
		return err
	}
	s.running = append(s.running, ms(time.Since(begin)))
	s.started = append(s.started, ms(running.TaskStates["t"].StartedAt.Sub(begin)))
	time.Sleep(settled)
	started, err := a.counters(ctx)
	if err != nil {
		return err
	}
	s.entries, s.fsyncs = append(s.entries, started.entries-before.entries),
		append(s.fsyncs, started.fsyncs-before.fsyncs)
	s.start.look(before, started)
	return a.end(ctx, s, id, k.volume, started)
}

func (a *agent) end(ctx context.Context, s *series, id, volume string, started written) error {
	if _, _, err := a.api.Jobs().Deregister(ctx, id, api.JobDeregisterOptions{}, nil); err != nil {
		return err
	}
	done, err := a.awaitAlloc(ctx, id, api.AllocClientStatusComplete)
	if err != nil {
		return err
	}
	if volume != "" {
		free, err := a.awaitFree(ctx, volume)
		if err != nil {
			return err
		}
		s.released = append(s.released, ms(free.Sub(*done.TaskStates["t"].FinishedAt)))
	}
	time.Sleep(settled)
	ended, err := a.counters(ctx)
	if err != nil {
		return err
	}
	s.releaseEntries, s.releaseFsyncs = append(s.releaseEntries, ended.entries-started.entries),
		append(s.releaseFsyncs, ended.fsyncs-started.fsyncs)
	s.release.look(started, ended)
	return nil
}

// awaitAlloc waits until the job's alloc has the status.
func (a *agent) awaitAlloc(ctx context.Context, job, status string) (*api.AllocationListStub, error) {
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		list, meta, err := a.api.Jobs().Allocations(ctx, job, false, o)
		if err != nil {
			return nil, err
		}
		if len(list) == 1 && list[0].ClientStatus == status {
			return list[0], nil
		}
		o.WaitIndex = meta.Index
	}
	return nil, fmt.Errorf("job %s is not %s after 30s", job, status)
}

// awaitFree waits until nobody has a claim on the volume and tells when that was seen.
func (a *agent) awaitFree(ctx context.Context, volume string) (time.Time, error) {
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		v, meta, err := a.api.Volumes().Get(ctx, volume, o)
		if err != nil {
			return time.Time{}, err
		}
		if len(v.WriteAllocs) == 0 {
			return time.Now(), nil
		}
		o.WaitIndex = meta.Index
	}
	return time.Time{}, fmt.Errorf("volume %s is not free after 30s", volume)
}

// atOnce starts many tasks of one job and weighs what holds them.
func atOnce(tasks int) func(context.Context, *report, string) error {
	return func(ctx context.Context, r *report, binary string) (err error) {
		a, err := start(binary)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.stop()) }()
		if err := until(ctx, "node ready", func() error { return a.nodeReady(ctx) }); err != nil {
			return err
		}
		time.Sleep(time.Second) // the bundled plugin has started
		before, err := memory(a.cmd.Process.Pid, "smaps_rollup", "Pss")
		if err != nil {
			return err
		}
		begin := time.Now()
		if _, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: sleeper("many", tasks, isolated(""))},
			nil); err != nil {
			return err
		}
		if err := a.awaitCount(ctx, "many", tasks); err != nil {
			return err
		}
		took := ms(time.Since(begin))
		time.Sleep(2 * time.Second) // what was needed to start is given back
		per, err := a.weigh(before, tasks)
		if err != nil {
			return err
		}
		r.add(figure{
			name:    fmt.Sprintf("%d isolated tasks at once: all running", tasks),
			unit:    "ms",
			samples: []float64{took},
			bar:     bar{text: "≤ 3 s for 200", median: 3000},
		})
		r.add(figure{
			name:    "… proportional set size per alloc of what holds it (its shim and its part of the agent's growth)",
			unit:    "MiB",
			samples: []float64{per},
			bar:     bar{text: "≤ 6 MiB", median: 6},
		})
		return nil
	}
}

func (a *agent) awaitCount(ctx context.Context, job string, n int) error {
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		sum, meta, err := a.api.Jobs().Summary(ctx, job, o)
		if err != nil {
			return err
		}
		if sum.Summary["g"].Running == n {
			return nil
		}
		o.WaitIndex = meta.Index
	}
	return fmt.Errorf("job %s does not run %d tasks after a minute", job, n)
}

// weigh is the memory beyond the tasks, per alloc.
func (a *agent) weigh(before int64, tasks int) (float64, error) {
	pids, err := a.shims()
	if err != nil {
		return 0, err
	}
	if len(pids) < tasks {
		return 0, fmt.Errorf("%d shims for %d tasks", len(pids), tasks)
	}
	after, err := memory(a.cmd.Process.Pid, "smaps_rollup", "Pss")
	if err != nil {
		return 0, err
	}
	total := (after - before) * int64(len(pids)) / int64(tasks)
	for _, pid := range pids {
		pss, err := memory(pid, "smaps_rollup", "Pss")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		total += pss
	}
	return mebi(total<<10) / float64(len(pids)), nil
}

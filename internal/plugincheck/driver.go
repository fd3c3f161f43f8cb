package plugincheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/pluginreport"
	"berth/internal/base/retry"
	"berth/internal/client/shim"
	"berth/internal/helperbin"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
)

// Driver tests a plugin that drives tasks. Without the config of a task nothing is started.
func Driver(ctx context.Context, asked pluginreport.Asked, log *slog.Logger) (*pluginreport.Report, error) {
	b, remove, err := newBench(asked, log)
	if err != nil {
		return nil, err
	}
	launcher, err := shim.New(shim.Config{
		Dir:     filepath.Join(b.dir, "shim"),
		Program: helperbin.Open,
		Slice:   "plugintest-" + filepath.Base(b.dir),
		Log:     log,
	})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	d := &drives{bench: b, launcher: launcher, config: asked.Task}
	d.begin(ctx)
	r := &pluginreport.Report{Kind: "driver"}
	judge(ctx, r, []check{
		{"it starts, says who it is, and takes its configuration", d.starts},
		{"it describes what a task can configure, and takes a config of that", d.schema},
		{"a config that it does not know is refused", d.mistakes},
		{"a task starts, and runs", d.runs},
		{"what the task writes arrives", d.writes},
		{"it tells what the task uses", d.uses},
		{"a command runs in the task", d.commands},
		{"killed and started again it takes its task up, which goes on", d.takesUp},
		{"it is found again by the next run of the agent, with its task", d.reattaches},
		{"a task is ended within its time", d.stops},
		{"a task that it does not know is not there for certain", d.unknown},
		{"the same task starts again, and how it ends is said", d.again},
		{"what a start left is ended before the next", d.nothingTwice},
		{"nothing of its tasks is left", d.leaves},
	})
	r.Name, r.Version = d.d.Name(), d.d.Info().Version
	return r, errors.Join(d.stop(), launcher.EndAll(context.WithoutCancel(ctx)), remove())
}

// drives is a run of a driver with its task.
type drives struct {
	*bench
	launcher *shim.Launcher
	config   map[string]any
	d        *external.Driver
	said     chan driver.Fingerprint
	end      func() error

	cfg  *driver.TaskConfig
	task driver.Task // nil: none runs
}

func (d *drives) begin(ctx context.Context) {
	said := make(chan driver.Fingerprint, 100)
	d.said = said
	d.renew()
	d.d = external.New(external.Config{Config: d.bench.cfg, Launcher: d.launcher})
	d.end = d.start(ctx, func(ctx context.Context) error {
		return d.d.Follow(ctx, func(f driver.Fingerprint) {
			select {
			case said <- f:
			default: // what was said first is judged
			}
		})
	})
}

// leaves has the last task ended, and looks for processes that write to what was given to a task. They are ended: the
// test leaves nothing.
func (d *drives) leaves(ctx context.Context) (string, error) {
	if d.cfg == nil {
		return "", &skipped{"no task was started"}
	}
	var failed error
	if d.task != nil {
		limited, cancel := context.WithTimeout(ctx, answerLimit/3)
		failed = d.task.Stop(limited, "", time.Second)
		cancel()
		d.task = nil
	}
	itself, _ := d.process() // it may have ended
	var left []int
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		to, gone := os.Readlink(fd)
		pid, odd := strconv.Atoi(strings.Split(fd, "/")[2])
		if gone == nil && odd == nil && pid != itself && pid != os.Getpid() && !slices.Contains(left, pid) &&
			strings.HasPrefix(to, filepath.Join(d.bench.cfg.Dir, "output")+"/") {
			left = append(left, pid)
			failed = errors.Join(failed, unix.Kill(pid, unix.SIGKILL))
		}
	}
	if len(left) > 0 {
		failed = errors.Join(broken("the processes %v of tasks that it had ended lived, and were killed", left), failed)
	}
	return "", errors.Join(failed, err)
}

func (d *drives) stop() error {
	err := d.end()
	// It goes on for a task whose end nobody asked it for; and what it started has been ended.
	if pid, failed := d.process(); failed == nil && alive(pid) {
		err = errors.Join(err, d.kill())
	}
	return err
}

// next waits until the driver says that it is well; after, it waits for the word that it is not before.
func (d *drives) next(ctx context.Context, after bool) (driver.Fingerprint, error) {
	last := "it says nothing"
	for {
		select {
		case <-ctx.Done():
			return driver.Fingerprint{}, broken("%s%s", last, d.bench.said())
		case f := <-d.said:
			switch {
			case f.Health != driver.Healthy:
				after, last = false, string(f.Health)+": "+f.Description
			case !after:
				return f, nil
			}
		}
	}
}

func (d *drives) starts(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	f, err := d.next(limited, false)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("driver %q %s: %s", d.d.Name(), d.d.Info().Version, f.Description), nil
}

func (d *drives) schema(context.Context) (string, error) {
	if d.config == nil {
		return fmt.Sprintf("it takes %d options", len(d.d.Info().Schema)), nil
	}
	_, err := d.d.Info().Schema.Read(d.d.Name(), d.config)
	return fmt.Sprintf("it takes %d options", len(d.d.Info().Schema)), err
}

func (d *drives) mistakes(context.Context) (string, error) {
	wrong := map[string]any{"there-is-no-such-option": "x"}
	if _, err := d.d.Info().Schema.Read(d.d.Name(), wrong); err == nil {
		return "", broken("its description takes any option: mistakes in jobs are found when their tasks start")
	}
	return "", nil
}

// needsTask skips what cannot be tested without one.
func (d *drives) needsTask() error {
	if d.config == nil {
		return &skipped{"no config of a task was given"}
	}
	if d.task == nil {
		return &skipped{"no task runs"}
	}
	return nil
}

// newTask is the config of a task in directories of its own.
func (d *drives) newTask(attempt int) (*driver.TaskConfig, error) {
	root := filepath.Join(d.dir, "alloc")
	for _, sub := range []string{"alloc/logs", "alloc/data", "task/local", "task/secrets", "task/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o777); err != nil {
			return nil, err
		}
	}
	id := ids.Alloc(ids.New())
	if d.cfg != nil {
		id = d.cfg.Alloc
	}
	return &driver.TaskConfig{
		Alloc:     id,
		Job:       "plugin-test",
		Group:     "group",
		Task:      "task",
		Attempt:   attempt,
		Env:       map[string]string{"NOMAD_TASK_NAME": "task", "NOMAD_ALLOC_ID": string(id)},
		Config:    d.config,
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 64},
		Logs:      driver.LogConfig{Dir: filepath.Join(root, "alloc/logs"), MaxFiles: 2, MaxBytes: 1 << 20},
		AllocDir:  filepath.Join(root, "alloc"),
		TaskDir:   filepath.Join(root, "task"),
	}, nil
}

func (d *drives) runs(ctx context.Context) (string, error) {
	if d.config == nil {
		return "", d.needsTask()
	}
	return "", d.startTask(ctx, 1)
}

// startTask starts an attempt, and sees that it does not end at once.
func (d *drives) startTask(ctx context.Context, attempt int) error {
	cfg, err := d.newTask(attempt)
	if err != nil {
		return err
	}
	task, err := d.d.Start(ctx, cfg)
	if err != nil {
		return err
	}
	d.cfg, d.task = cfg, task
	return d.goesOn(ctx)
}

// goesOn reports a task that ends although nobody asked for it.
func (d *drives) goesOn(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := d.task.Wait(limited)
	switch {
	case err == nil:
		return broken("the task ended by itself: exit code %d, signal %d, %s", r.ExitCode, r.Signal, r.Err)
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return nil
}

func (d *drives) writes(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit/6)
	defer cancel()
	for {
		size := 0
		err := filepath.WalkDir(d.cfg.Logs.Dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				text, failed := os.ReadFile(path)
				size, err = size+len(text), failed
			}
			return err
		})
		switch {
		case err != nil:
			return "", err
		case size > 0:
			return fmt.Sprintf("%d bytes", size), nil
		case !retry.Sleep(limited, 100*time.Millisecond):
			return "", &skipped{"the task wrote nothing"}
		}
	}
}

func (d *drives) uses(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	s, err := d.task.Stats(ctx)
	if fault.Has(err, fault.Unsupported) {
		return "", &skipped{"it does not say"}
	}
	return fmt.Sprintf("%d bytes of memory", max(s.MemoryRSS, s.MemoryUsage)), err
}

func (d *drives) commands(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	if !d.d.Info().Capabilities.Exec {
		return "", &skipped{"it does not claim it"}
	}
	var out bytes.Buffer
	r, err := d.task.Exec(ctx, driver.ExecRequest{
		Command: []string{"/bin/sh", "-c", "echo here; exit 3"},
		Stdin:   strings.NewReader(""),
		Stdout:  &out,
		Stderr:  &out,
	})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 3 || out.String() != "here\n" {
		return "", broken("exit code %d of 3, output %q of \"here\\n\"", r.ExitCode, out.String())
	}
	return "", nil
}

func (d *drives) takesUp(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	if err := d.kill(); err != nil {
		return "", err
	}
	if _, err := d.next(ctx, true); err != nil {
		return "", err
	}
	return "", d.goesOn(ctx)
}

func (d *drives) reattaches(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	before, err := d.process()
	if err != nil {
		return "", err
	}
	h := d.task.Handle()
	if err := d.end(); err != nil {
		return "", err
	}
	if !alive(before) {
		return "", broken("it ended when its host did%s", d.bench.said())
	}
	d.begin(context.WithoutCancel(ctx))
	if _, err := d.next(ctx, false); err != nil {
		return "", err
	}
	if now, err := d.process(); err != nil || now != before {
		return "", broken("it was process %d, and is %d: it did not answer again%s", before, now, d.bench.said())
	}
	task, err := d.d.Recover(ctx, h)
	if err != nil {
		return "", err
	}
	d.task = task
	return "", d.goesOn(ctx)
}

func (d *drives) stops(ctx context.Context) (string, error) {
	if err := d.needsTask(); err != nil {
		return "", err
	}
	if err := d.task.Stop(ctx, "", 5*time.Second); err != nil {
		return "", err
	}
	r, err := d.task.Wait(ctx)
	d.task = nil
	if err != nil {
		return "", err
	}
	if r.Unknown { // it was started again while the task ran
		return "it does not know how: " + r.Err, nil
	}
	return fmt.Sprintf("exit code %d, signal %d", r.ExitCode, r.Signal), nil
}

func (d *drives) unknown(ctx context.Context) (string, error) {
	if d.config == nil || d.cfg == nil {
		return "", d.needsTask()
	}
	h := driver.TaskHandle{
		Driver:  d.d.Name(),
		Version: 1,
		Alloc:   ids.Alloc(ids.New()),
		Task:    "task",
		Attempt: 1,
		State:   []byte(`{}`),
	}
	if _, err := d.d.Recover(ctx, h); !fault.Has(err, fault.NotFound) {
		return "", broken("it should answer \"task not found for given id\", and answers: %v", err)
	}
	return "", nil
}

func (d *drives) again(ctx context.Context) (string, error) {
	if d.config == nil || d.cfg == nil {
		return "", d.needsTask()
	}
	if err := d.startTask(ctx, 2); err != nil {
		return "", err
	}
	task := d.task
	if err := task.Stop(ctx, "", 5*time.Second); err != nil {
		return "", err
	}
	d.task = nil
	r, err := task.Wait(ctx)
	if err == nil && r.Unknown {
		err = broken("it does not know how its own task ended: %s", r.Err)
	}
	return fmt.Sprintf("exit code %d, signal %d", r.ExitCode, r.Signal), err
}

// nothingTwice starts a task whose earlier start nobody wrote down.
func (d *drives) nothingTwice(ctx context.Context) (string, error) {
	if d.config == nil || d.cfg == nil {
		return "", d.needsTask()
	}
	if err := d.startTask(ctx, 3); err != nil {
		return "", err
	}
	first := d.task
	if err := d.startTask(ctx, 4); err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit/3)
	defer cancel()
	if _, err := first.Wait(limited); err != nil {
		return "", broken("the earlier one still runs: %s", err)
	}
	return "", nil
}

// Package launched owns what drivers that start plain processes have in common: a task that is one process of a
// driver.Launcher, its durable handle, and its environment. rawexec and exec import it.
package launched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
)

// stateVersion is the version of TaskHandle.State that this code writes.
const stateVersion = 1

// Task is one process of a launcher.
type Task struct {
	process       driver.Process
	handle        driver.TaskHandle
	defaultSignal string
}

var _ driver.Task = (*Task)(nil)

// Options of a driver.
type Options struct {
	Driver        string
	Launcher      driver.Launcher
	DefaultSignal string
}

// Spec fills in what follows from a task's configuration alone.
func Spec(cfg *driver.TaskConfig) *driver.LaunchSpec {
	spec := &driver.LaunchSpec{
		AllocID:   string(cfg.Alloc),
		Task:      cfg.Task,
		Attempt:   cfg.Attempt,
		User:      cfg.User,
		Logs:      cfg.Logs,
		Resources: cfg.Resources,
	}
	if cfg.Network != nil {
		spec.Netns = cfg.Network.Namespace
	}
	return spec
}

// Start launches a task's process.
func Start(ctx context.Context, o Options, cfg *driver.TaskConfig, spec *driver.LaunchSpec) (driver.Task, error) {
	p, err := o.Launcher.Launch(ctx, spec)
	if err != nil {
		return nil, fault.Note(err, "start", "task "+strconv.Quote(cfg.Task))
	}
	h, err := Handle(o.Driver, cfg.Alloc, p.Handle())
	if err != nil {
		return nil, errors.Join(err, p.Kill(ctx, "", 0))
	}
	h.Started = time.Now()
	return &Task{process: p, defaultSignal: o.DefaultSignal, handle: h}, nil
}

// Handle is the durable reference to a process that a driver of this kind has launched: also of one whose record is
// lost, and which its launcher still holds.
func Handle(driverName string, id ids.Alloc, p driver.ProcessHandle) (driver.TaskHandle, error) {
	state, err := json.Marshal(p)
	if err != nil {
		return driver.TaskHandle{}, fault.Wrap(err, fault.Internal, "record", "task "+strconv.Quote(p.Task))
	}
	return driver.TaskHandle{
		Driver:  driverName,
		Version: stateVersion,
		Alloc:   id,
		Task:    p.Task,
		Attempt: p.Attempt,
		PID:     p.PID,
		State:   state,
	}, nil
}

// Recover finds a task again by its handle.
func Recover(ctx context.Context, o Options, h driver.TaskHandle) (driver.Task, error) {
	if h.Driver != o.Driver || h.Version != stateVersion {
		return nil, fault.New(fault.Invalid, "recover", "task "+strconv.Quote(h.Task),
			fmt.Sprintf("its handle is of driver %q, version %d; this is %q, version %d", h.Driver, h.Version, o.Driver,
				stateVersion))
	}
	var ph driver.ProcessHandle
	if err := json.Unmarshal(h.State, &ph); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "recover", "task "+strconv.Quote(h.Task))
	}
	p, err := o.Launcher.Attach(ctx, ph)
	if err != nil {
		return nil, fault.Note(err, "recover", "task "+strconv.Quote(h.Task))
	}
	return &Task{process: p, handle: h, defaultSignal: o.DefaultSignal}, nil
}

// Handle implements driver.Task.
func (t *Task) Handle() driver.TaskHandle { return t.handle }

// Wait implements driver.Task.
func (t *Task) Wait(ctx context.Context) (driver.ExitResult, error) { return t.process.Wait(ctx) }

// Stop implements driver.Task.
func (t *Task) Stop(ctx context.Context, signal string, grace time.Duration) error {
	if signal == "" {
		signal = t.defaultSignal
	}
	return t.process.Kill(ctx, signal, grace)
}

// Signal implements driver.Task.
func (t *Task) Signal(ctx context.Context, signal string) error {
	return t.process.Signal(ctx, signal)
}

// OOMKills implements driver.OOMCounter.
func (t *Task) OOMKills() int64 {
	if c, ok := t.process.(driver.OOMCounter); ok {
		return c.OOMKills()
	}
	return 0
}

// Stats implements driver.Task.
func (t *Task) Stats(ctx context.Context) (driver.Stats, error) { return t.process.Stats(ctx) }

// Exec implements driver.Task.
func (t *Task) Exec(ctx context.Context, req driver.ExecRequest) (driver.ExitResult, error) {
	return t.process.Exec(ctx, req)
}

// Env turns an environment into sorted K=V, with a PATH if it names none.
func Env(env map[string]string, path string) []string {
	out := make([]string, 0, len(env)+1)
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	if _, ok := env["PATH"]; !ok {
		out = append(out, "PATH="+path)
		slices.Sort(out)
	}
	return out
}

// Command takes command and args from a config block as a schema reads it.
func Command(config map[string]any) []string {
	command, _ := config["command"].(string) // the schema requires it
	return append([]string{command}, Texts(config, "args")...)
}

// Texts takes a list of texts from a config block as a schema reads it.
func Texts(config map[string]any, name string) []string {
	list, _ := config[name].([]any) // the schema says so; nil: it is not set
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, _ := v.(string) // as above
		out = append(out, text)
	}
	return out
}

// Look makes a driver's fingerprint from what its launcher says.
func Look(l driver.Launcher, name string, isolated bool) driver.Fingerprint {
	if c, ok := l.(driver.Checker); ok {
		if err := c.Check(isolated); err != nil {
			return driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
		}
	}
	return driver.Fingerprint{Health: driver.Healthy, Attributes: map[string]string{"driver." + name: "1"}}
}

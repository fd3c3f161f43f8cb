// Package mock owns a task driver whose processes are values in memory: tests of the node half script how they start,
// end and are found again, and ask what was done to them. Nothing but tests imports it.
package mock

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
)

// Driver is the mock. Its processes live as long as the value does: handing the same Driver to a second agent is how a
// test lets tasks outlive the first. The exported members are set before use.
type Driver struct {
	DriverName   string
	Capabilities driver.Capabilities
	// Fail decides, when set, whether a start fails; called with the configuration and nothing held.
	Fail func(cfg *driver.TaskConfig) error
	// OnStart and OnStop hear of each start that succeeds, and of each stop of a process that lives, when set.
	OnStart, OnStop func(cfg *driver.TaskConfig)
	// RecoverErr fails every Recover, when set by SetRecoverErr.
	recoverErr error
	// stopErr fails every Stop, when set by SetStopErr.
	stopErr error
	health  driver.Fingerprint

	mu      sync.Mutex
	changed lifecycle.Signal
	procs   map[string]*Proc
	order   []string
	log     []string
}

// New returns a healthy mock named "mock_driver".
func New() *Driver {
	return &Driver{DriverName: "mock_driver", procs: map[string]*Proc{},
		Capabilities: driver.Capabilities{
			SendSignals:   true,
			Exec:          true,
			FSIsolation:   driver.IsolationNone,
			Evidence:      driver.EvidenceDriver,
			DefaultSignal: "SIGINT",
		},
		health: driver.Fingerprint{Health: driver.Healthy, Attributes: map[string]string{"driver.mock_driver": "1"}}}
}

// Proc is one process.
type Proc struct {
	Config  driver.TaskConfig
	Started time.Time
	exit    *driver.ExitResult
	forgot  bool
	Signals []string
	// IgnoreSignals makes a stop need its whole grace.
	ignore bool
	kills  int64
}

// Key names a process: "<task>.<attempt>", for tests with one alloc.
func Key(cfg *driver.TaskConfig) string { return fmt.Sprintf("%s.%d", cfg.Task, cfg.Attempt) }

func handleKey(h driver.TaskHandle) string {
	return string(h.Alloc) + "/" + h.Task + fmt.Sprint(h.Attempt)
}

// Name of the driver.
func (d *Driver) Name() string { return d.DriverName }

// Info describes it. Options: run_for (duration, how long a process lives; empty: until stopped), exit_code,
// exit_signal, oom_killed, start_error, start_error_final, ignore_signals, plus free texts command, args and note.
func (d *Driver) Info() driver.Info {
	return driver.Info{Name: d.DriverName, Version: "1.0.0", Capabilities: d.Capabilities, Schema: taskconfig.Schema{
		"run_for":           {Kind: taskconfig.Text},
		"exit_code":         {Kind: taskconfig.Number},
		"exit_signal":       {Kind: taskconfig.Number},
		"oom_killed":        {Kind: taskconfig.Boolean},
		"start_error":       {Kind: taskconfig.Text},
		"start_error_final": {Kind: taskconfig.Boolean},
		"ignore_signals":    {Kind: taskconfig.Boolean},
		"stdout":            {Kind: taskconfig.Text},
		"command":           {Kind: taskconfig.Text},
		"args":              {Kind: taskconfig.Texts},
		"note":              {Kind: taskconfig.Text},
	}}
}

// Fingerprint says what SetHealth said.
func (d *Driver) Fingerprint(context.Context) driver.Fingerprint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.health
}

// SetHealth changes what Fingerprint says.
func (d *Driver) SetHealth(f driver.Fingerprint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = f
}

// SetRecoverErr makes every Recover fail with err; nil makes it work again.
func (d *Driver) SetRecoverErr(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recoverErr = err
}

// SetStopErr makes every Stop fail with err; nil makes it work again.
func (d *Driver) SetStopErr(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopErr = err
}

// Start starts a process.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.Fail != nil {
		if err := d.Fail(cfg); err != nil {
			return nil, err
		}
	}
	if text, _ := cfg.Config["start_error"].(string); text != "" {
		kind := fault.Unavailable
		if final, _ := cfg.Config["start_error_final"].(bool); final {
			kind = fault.Invalid
		}
		return nil, fault.New(kind, "start", fmt.Sprintf("task %q", cfg.Task), text)
	}
	p := &Proc{Config: *cfg, Started: time.Now()}
	p.ignore, _ = cfg.Config["ignore_signals"].(bool)
	h := driver.TaskHandle{
		Driver:  d.DriverName,
		Version: 1,
		Alloc:   cfg.Alloc,
		Task:    cfg.Task,
		Attempt: cfg.Attempt,
		PID:     1,
		Started: p.Started,
	}
	if d.OnStart != nil {
		d.OnStart(cfg)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.procs[handleKey(h)] = p
	d.order = append(d.order, handleKey(h))
	d.note("start " + Key(cfg))
	return &task{d: d, h: h, p: p}, nil
}

// Abort ends a process whose start nobody has heard of.
func (d *Driver) Abort(_ context.Context, id ids.Alloc, name string, attempt int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.procs[handleKey(driver.TaskHandle{Alloc: id, Task: name, Attempt: attempt})]
	if p == nil || p.forgot {
		return nil
	}
	d.note(fmt.Sprintf("abort %s.%d", name, attempt))
	if p.result(time.Now()) == nil {
		p.exit = &driver.ExitResult{ExitCode: 137, Signal: 9, Ended: time.Now()}
	}
	p.forgot = true
	d.changed.Notify()
	return nil
}

// Recover finds a process again.
func (d *Driver) Recover(_ context.Context, h driver.TaskHandle) (driver.Task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recoverErr != nil {
		return nil, d.recoverErr
	}
	p := d.procs[handleKey(h)]
	if p == nil || p.forgot {
		return nil, fault.New(fault.NotFound, "recover", fmt.Sprintf("task %q", h.Task), "no process of it is left")
	}
	d.note(fmt.Sprintf("recover %s.%d", h.Task, h.Attempt))
	return &task{d: d, h: h, p: p}, nil
}

func (d *Driver) note(line string) {
	d.log = append(d.log, line)
	d.changed.Notify()
}

// Log lists what was done, in order: "start web.1", "signal web.1 SIGHUP", "stop web.1 SIGINT", "recover web.1".
func (d *Driver) Log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// Alive lists the tasks whose process lives, in order of their start.
func (d *Driver) Alive() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, k := range d.order {
		if p := d.procs[k]; p.result(time.Now()) == nil {
			out = append(out, Key(&p.Config))
		}
	}
	return out
}

// Living returns the configurations of the processes that live, in order of their start.
func (d *Driver) Living() (out []driver.TaskConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.order {
		if p := d.procs[k]; p.result(time.Now()) == nil {
			out = append(out, p.Config)
		}
	}
	return out
}

// Config returns the configuration of the newest start of a task.
func (d *Driver) Config(task string) (driver.TaskConfig, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range slices.Backward(d.order) {
		if d.procs[k].Config.Task == task {
			return d.procs[k].Config, true
		}
	}
	return driver.TaskConfig{}, false
}

// Exit ends the living process of a task.
func (d *Driver) Exit(task string, r driver.ExitResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range slices.Backward(d.order) {
		if p := d.procs[k]; p.Config.Task == task && p.exit == nil {
			r.Ended = time.Now()
			p.exit = &r
			d.note("exit " + Key(&p.Config))
			return
		}
	}
}

// OOMKill kills a child of the living process of a task for the memory limit: the task lives on.
func (d *Driver) OOMKill(task string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.procs {
		if p.Config.Task == task && p.exit == nil {
			p.kills++
		}
	}
}

// Lose makes a process vanish together with every memory of it: what a dead shim means.
func (d *Driver) Lose(task string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.order {
		if p := d.procs[k]; p.Config.Task == task {
			p.forgot = true
			if p.exit == nil {
				p.exit = &driver.ExitResult{Unknown: true, Ended: time.Now()}
			}
		}
	}
	d.changed.Notify()
}

// result of the process at a time; nil while it lives. The caller holds the lock.
func (p *Proc) result(now time.Time) *driver.ExitResult {
	if p.exit != nil {
		return p.exit
	}
	after, ok := p.runFor()
	if !ok || now.Before(p.Started.Add(after)) {
		return nil
	}
	r := &driver.ExitResult{
		Ended:    p.Started.Add(after),
		ExitCode: asInt(p.Config.Config["exit_code"]),
		Signal:   asInt(p.Config.Config["exit_signal"]),
	}
	r.OOMKilled, _ = p.Config.Config["oom_killed"].(bool)
	told := r.Told()
	p.exit = &told
	return p.exit
}

func (p *Proc) runFor() (time.Duration, bool) {
	text, _ := p.Config.Config["run_for"].(string)
	after, err := time.ParseDuration(text)
	return after, err == nil
}

func asInt(v any) int {
	switch t := v.(type) {
	case int:
		return t
	case int64:
		return int(t)
	case uint64:
		return int(t)
	case float64:
		return int(t)
	}
	return 0
}

type task struct {
	d *Driver
	h driver.TaskHandle
	p *Proc
}

func (t *task) Handle() driver.TaskHandle { return t.h }

func (t *task) Wait(ctx context.Context) (driver.ExitResult, error) {
	for {
		t.d.mu.Lock()
		changed, r := t.d.changed.C(), t.p.result(time.Now())
		after, timed := t.p.runFor()
		t.d.mu.Unlock()
		if r != nil {
			return *r, nil
		}
		var alarm <-chan time.Time
		if timed {
			alarm = time.After(time.Until(t.p.Started.Add(after)))
		}
		select {
		case <-ctx.Done():
			return driver.ExitResult{}, ctx.Err()
		case <-changed:
		case <-alarm:
		}
	}
}

func (t *task) Stop(ctx context.Context, signal string, grace time.Duration) error {
	if signal == "" {
		signal = t.d.Capabilities.DefaultSignal
	}
	t.d.mu.Lock()
	ended := t.p.result(time.Now()) != nil
	if !ended {
		t.d.note(fmt.Sprintf("stop %s %s", Key(&t.p.Config), signal))
	}
	ignore, err := t.p.ignore, t.d.stopErr
	t.d.mu.Unlock()
	if err != nil {
		return err
	}
	if !ended && t.d.OnStop != nil {
		t.d.OnStop(&t.p.Config)
	}
	r := driver.ExitResult{ExitCode: 130, Signal: 2}
	if !ended && ignore {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(grace):
		}
		r = driver.ExitResult{ExitCode: 137, Signal: 9}
	}
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	if t.p.exit == nil {
		r.Ended = time.Now()
		t.p.exit = &r
	}
	t.p.forgot = true
	t.d.changed.Notify()
	return nil
}

func (t *task) Signal(_ context.Context, signal string) error {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	if t.p.result(time.Now()) != nil {
		return fault.New(fault.Conflict, "signal", fmt.Sprintf("task %q", t.h.Task), "it does not run")
	}
	t.p.Signals = append(t.p.Signals, signal)
	t.d.note(fmt.Sprintf("signal %s %s", Key(&t.p.Config), signal))
	return nil
}

// OOMKills implements driver.OOMCounter.
func (t *task) OOMKills() int64 {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	return t.p.kills
}

func (t *task) Stats(context.Context) (driver.Stats, error) {
	now := time.Now()
	return driver.Stats{
		Time:        now,
		CPUNanos:    uint64(now.Sub(t.p.Started)),
		MemoryRSS:   1 << 20,
		MemoryUsage: 1 << 20,
		PIDs:        1,
	}, nil
}

// Exec copies stdin to stdout and exits with 3, so that a test sees both ways.
func (t *task) Exec(_ context.Context, req driver.ExecRequest) (driver.ExitResult, error) {
	if req.Stdin != nil && req.Stdout != nil {
		if _, err := io.Copy(req.Stdout, req.Stdin); err != nil {
			return driver.ExitResult{}, err
		}
	}
	return driver.ExitResult{ExitCode: 3}, nil
}

// Package drivermanager owns the task drivers of a node: which there are, how they are, and how a task is found again
// by the driver that started it. Only package client and its runners import it.
package drivermanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// Config wires a manager. Zero durations take the defaults.
type Config struct {
	Drivers []driver.Driver
	// Period is how often drivers look at the node again; Deadline bounds one look.
	Period   time.Duration
	Deadline time.Duration
	Log      *slog.Logger
}

// Defaults of Config.
const (
	DefaultPeriod   = 30 * time.Second
	DefaultDeadline = 5 * time.Second
)

// Manager looks after the drivers. Its methods may be called from every goroutine, before Run too.
type Manager struct {
	cfg     Config
	drivers map[string]driver.Driver
	changed lifecycle.Signal
	looked  chan struct{} // closed when every driver was looked at once

	mu     sync.Mutex
	states map[string]*node.Driver
	silent map[string]bool // did not answer in time; its look is still under way
}

// New returns a manager that does nothing before Run. Two drivers of one name are refused.
func New(cfg Config) (*Manager, error) {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = DefaultDeadline
	}
	m := &Manager{
		cfg:     cfg,
		drivers: map[string]driver.Driver{},
		looked:  make(chan struct{}),
		states:  map[string]*node.Driver{},
		silent:  map[string]bool{},
	}
	for _, d := range cfg.Drivers {
		if m.drivers[d.Name()] != nil {
			return nil, fault.New(fault.Invalid, "register", fmt.Sprintf("driver %q", d.Name()),
				"there are two of this name")
		}
		m.drivers[d.Name()] = d
	}
	return m, nil
}

// Run looks at every driver at once, then again in every period, until ctx ends. Nothing is tried after that.
func (m *Manager) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	var first sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(m.drivers)) {
		d := m.drivers[name]
		first.Add(1)
		g.Go("driver "+name, func() error { return m.watch(gctx, g, d, sync.OnceFunc(first.Done)) })
	}
	g.Go("first look", func() error {
		first.Wait()
		close(m.looked)
		return nil
	})
	return g.Wait()
}

// Looked is closed when every driver was looked at once, or failed to answer in time.
func (m *Manager) Looked() <-chan struct{} { return m.looked }

// watch looks at one driver for as long as the manager runs.
func (m *Manager) watch(ctx context.Context, g *lifecycle.Group, d driver.Driver, done func()) error {
	defer done()
	tick := time.NewTicker(m.cfg.Period)
	defer tick.Stop()
	for {
		m.look(ctx, g, d)
		done()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look asks a driver once. One that does not answer in time is said to be so and asked again only when that look ended.
func (m *Manager) look(ctx context.Context, g *lifecycle.Group, d driver.Driver) {
	if m.isSilent(d.Name()) {
		return
	}
	dctx, cancel := context.WithTimeout(ctx, m.cfg.Deadline)
	answer := make(chan driver.Fingerprint, 1)
	g.Go("fingerprint "+d.Name(), func() error {
		defer cancel()
		answer <- ask(dctx, d)
		m.setSilent(d.Name(), false)
		return nil
	})
	var f driver.Fingerprint
	select {
	case f = <-answer:
	case <-dctx.Done():
		m.setSilent(d.Name(), true)
		select {
		case f = <-answer:
			m.setSilent(d.Name(), false)
		default:
		}
	}
	if ctx.Err() != nil {
		return // the manager ends: what the driver said of that is not its state
	}
	if errors.Is(dctx.Err(), context.DeadlineExceeded) {
		f = driver.Fingerprint{
			Health:      driver.Unhealthy,
			Description: fmt.Sprintf("the driver did not answer within %s", m.cfg.Deadline),
		}
	}
	m.record(ctx, d, f)
}

// ask turns a panic into an unhealthy driver: one fault never stops the agent.
func ask(ctx context.Context, d driver.Driver) (f driver.Fingerprint) {
	isolated := lifecycle.Isolated("fingerprint "+d.Name(), func() error {
		f = d.Fingerprint(ctx)
		return nil
	}, func(err error) {
		f = driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
	})
	_ = isolated() // returns nil: a panic has been handed to the function above
	return f
}

func (m *Manager) isSilent(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent[name]
}

func (m *Manager) setSilent(name string, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent[name] = silent
}

// record notes a driver's state and tells about it when it changed.
func (m *Manager) record(ctx context.Context, d driver.Driver, f driver.Fingerprint) {
	caps := d.Info().Capabilities
	state := &node.Driver{
		Detected:          f.Health != driver.Undetected && f.Health != "",
		Healthy:           f.Health == driver.Healthy,
		HealthDescription: f.Description,
		Attributes:        maps.Clone(f.Attributes),
		NoMounts:          caps.Mounts == driver.MountNone,
		SelfFence:         caps.SelfFence,
		UpdateTime:        time.Now(),
	}
	if schema := d.Info().Schema; len(schema) > 0 && state.Detected {
		// By these the servers refuse a job whose tasks ask for something else, before anything of it is placed.
		if state.Attributes == nil {
			state.Attributes = map[string]string{}
		}
		state.Attributes[node.DriverOptions(d.Name())] = strings.Join(slices.Sorted(maps.Keys(schema)), ",")
		state.Options = schema
		policy := d.Info().Users
		if len(policy.Denied) > 0 {
			state.Attributes[node.DeniedUsers(d.Name())] = strings.Join(policy.Denied, ",")
		}
		if uids := policy.UIDs(); uids != "" {
			state.Attributes[node.DeniedUIDs(d.Name())] = uids
		}
	}
	if state.Healthy && state.HealthDescription == "" {
		state.HealthDescription = "Healthy"
	}
	m.mu.Lock()
	old := m.states[d.Name()]
	same := old != nil && old.Detected == state.Detected && old.Healthy == state.Healthy &&
		old.HealthDescription == state.HealthDescription && maps.Equal(old.Attributes, state.Attributes)
	if !same {
		m.states[d.Name()] = state
	}
	m.mu.Unlock()
	if same {
		return
	}
	level := slog.LevelInfo
	if !state.Healthy && (state.Detected || old != nil && old.Healthy) {
		level = slog.LevelWarn
	}
	m.cfg.Log.Log(ctx, level, "task driver", logkey.Driver, d.Name(), "health", string(f.Health), "reason",
		f.Description)
	m.changed.Notify()
}

// States describes every driver for the node's record.
func (m *Manager) States() map[string]*node.Driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.states) // states are replaced, never edited
}

// Changed is closed at the next change of any driver's state. Take it before States.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// Dispense returns a driver by name.
func (m *Manager) Dispense(name string) (driver.Driver, error) {
	if d := m.drivers[name]; d != nil {
		return d, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(m.drivers)), ", ")
	return nil, fault.WithHint(
		fault.New(fault.NotFound, "use", fmt.Sprintf("driver %q", name), "this node has no such driver"), "it has "+
			known)
}

// Info describes a driver.
func (m *Manager) Info(name string) (driver.Info, error) {
	d, err := m.Dispense(name)
	if err != nil {
		return driver.Info{}, err
	}
	return d.Info(), nil
}

// Recover finds a task again through the driver that its handle names. fault.NotFound means for certain that no process
// of it is left; a driver that is not there any more is fault.NotReady, because its tasks may run.
func (m *Manager) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	d := m.drivers[h.Driver]
	if d == nil {
		return nil, fault.WithHint(
			fault.New(fault.NotReady, "recover", fmt.Sprintf("task %q", h.Task),
				fmt.Sprintf("its driver %q is not there", h.Driver)),
			"enable the driver again so that the task can be found or stopped")
	}
	return d.Recover(ctx, h)
}

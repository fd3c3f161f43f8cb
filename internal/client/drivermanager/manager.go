// Package drivermanager owns the task drivers of a node: which there are, how they are, and how a task is found again
// by the driver that started it. Only package client and its runners import it.
package drivermanager

import (
	"cmp"
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
	"berth/internal/base/ids"
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
	changed lifecycle.Signal
	looked  chan struct{} // closed when every driver was looked at once

	mu      sync.Mutex
	drivers []driver.Driver
	states  map[string]*node.Driver
	silent  map[string]bool // did not answer in time; its look is still under way
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
		cfg:    cfg,
		looked: make(chan struct{}),
		states: map[string]*node.Driver{},
		silent: map[string]bool{},
	}
	for _, d := range cfg.Drivers {
		if m.named(d.Name()) != nil {
			return nil, fault.New(fault.Invalid, "register", fmt.Sprintf("driver %q", d.Name()),
				"there are two of this name")
		}
		m.drivers = append(m.drivers, d)
	}
	return m, nil
}

// Run looks at every driver at once, then again in every period, until ctx ends. Nothing is tried after that.
func (m *Manager) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	var first sync.WaitGroup
	for _, d := range m.all() {
		first.Add(1)
		done := sync.OnceFunc(first.Done)
		if f, ok := d.(driver.Follower); ok {
			g.Go("driver "+d.Name(), func() error { return m.follow(gctx, f, done) })
			continue
		}
		g.Go("driver "+d.Name(), func() error { return m.watch(gctx, g, d, done) })
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

// follow hears one driver for as long as the manager runs. One that says nothing within the deadline is said to be
// silent until it does.
func (m *Manager) follow(ctx context.Context, d driver.Follower, done func()) error {
	defer done()
	late := time.AfterFunc(m.cfg.Deadline, func() {
		m.record(ctx, d, driver.Fingerprint{
			Health:      driver.Unhealthy,
			Description: fmt.Sprintf("the driver did not say within %s how it is", m.cfg.Deadline),
		})
		done()
	})
	defer late.Stop()
	err := d.Follow(ctx, func(f driver.Fingerprint) {
		late.Stop()
		m.record(ctx, d, f)
		done()
	})
	if errors.Is(err, driver.ErrNoDriver) {
		late.Stop()
		m.forget(d)
		return nil
	}
	return err
}

// forget drops what turned out to be no driver.
func (m *Manager) forget(d driver.Driver) {
	m.mu.Lock()
	m.drivers = slices.DeleteFunc(slices.Clone(m.drivers), func(o driver.Driver) bool { return o == d })
	delete(m.states, d.Name())
	m.mu.Unlock()
	m.changed.Notify()
}

// all are the drivers that there are now.
func (m *Manager) all() []driver.Driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drivers // it is replaced, never edited
}

// named finds a driver; nil: there is none of this name. Drivers of others learn theirs when they are connected.
func (m *Manager) named(name string) driver.Driver {
	return find(m.all(), name)
}

func find(all []driver.Driver, name string) driver.Driver {
	for _, d := range all {
		if d.Name() == name {
			return d
		}
	}
	return nil
}

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
	delete(state.Attributes, node.DriverConfined(d.Name())) // that is judged by what it can do, and not by its word
	own := caps.FSIsolation == driver.IsolationChroot || caps.FSIsolation == driver.IsolationImage
	if own && state.Detected {
		if state.Attributes == nil {
			state.Attributes = map[string]string{}
		}
		state.Attributes[node.DriverConfined(d.Name())] = "1"
	}
	if state.Healthy && state.HealthDescription == "" {
		state.HealthDescription = "Healthy"
	}
	m.mu.Lock()
	if !slices.Contains(m.drivers, d) {
		m.mu.Unlock()
		return
	}
	for name := range m.states { // a driver of others may have been known by another name
		if find(m.drivers, name) == nil {
			delete(m.states, name)
		}
	}
	old := m.states[d.Name()]
	same := old != nil && old.Detected == state.Detected && old.Healthy == state.Healthy &&
		old.NoMounts == state.NoMounts && old.Options.Equal(state.Options) &&
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
	if d := m.named(name); d != nil {
		return d, nil
	}
	var all []string
	for _, d := range m.all() {
		all = append(all, d.Name())
	}
	slices.Sort(all)
	known := strings.Join(all, ", ")
	return nil, fault.WithHint(
		fault.New(fault.NotFound, "use", fmt.Sprintf("driver %q", name), "this node has no such driver"), "it has "+
			known)
}

// NetworkMaker returns a driver that makes networks. One that is not there any more is fault.NotReady: what it made may
// be there.
func (m *Manager) NetworkMaker(name string) (driver.NetworkMaker, error) {
	if d, is := m.named(name).(driver.NetworkMaker); is {
		return d, nil
	}
	return nil, fault.WithHint(fault.New(fault.NotReady, "use", fmt.Sprintf("driver %q", name),
		"it is not there, or makes no networks any more"), "enable the driver again so that what it made can be ended")
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
	d := m.named(h.Driver)
	if d == nil {
		return nil, fault.WithHint(
			fault.New(fault.NotReady, "recover", fmt.Sprintf("task %q", h.Task),
				fmt.Sprintf("its driver %q is not there", h.Driver)),
			"enable the driver again so that the task can be found or stopped")
	}
	return d.Recover(ctx, h)
}

// keepers are the drivers that keep tasks by themselves.
func (m *Manager) keepers() (out []driver.Keeper) {
	for _, d := range m.all() {
		if k, ok := d.(driver.Keeper); ok {
			out = append(out, k)
		}
	}
	return out
}

// Gone reports whether no driver keeps a task of an alloc, whatever is recorded of it, or in words which one may.
func (m *Manager) Gone(id ids.Alloc) (bool, string) {
	for _, k := range m.keepers() {
		if tasks, err := k.Keeps(id); err != nil {
			return false, err.Error()
		} else if len(tasks) > 0 {
			return false, fmt.Sprintf("driver %s may have its task %q", k.Name(), tasks[0])
		}
	}
	return true, ""
}

// Drop has the drivers end all that they keep of an alloc.
func (m *Manager) Drop(ctx context.Context, id ids.Alloc) error {
	var errs []error
	for _, k := range m.keepers() {
		if tasks, err := k.Keeps(id); err != nil || len(tasks) > 0 {
			errs = append(errs, cmp.Or(err, k.Drop(ctx, id)))
		}
	}
	return errors.Join(errs...)
}

// Package external owns task drivers that are programs of their own, as others wrote them: it starts them, speaks the
// public protocol of driver plugins with them, and makes them drivers like the built-in ones. The client makes one for
// each plugin of the agent's configuration.
//
// A plugin and its tasks outlive the agent: the next run connects with the process again. What tasks write comes by
// FIFOs, which a process of the alloc's shim reads, so that no task ends or waits for the agent's sake.
package external

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/driverpb"
)

// Config of a driver plugin.
type Config struct {
	pluginhost.Config

	Launcher driver.Launcher // holds what reads the tasks' output
	Node     func() Node
	Events   func(Event) // of tasks; nil: nobody listens
	// Device is called when the plugin turns out to be none of drivers, but of devices: it is another's then. nil:
	// nobody would take it.
	Device func()
	// Claim takes the name that the plugin calls itself, unless another driver has it; nil: every name is free.
	Claim func(name string) bool
}

func (c Config) outputsDir() string { return filepath.Join(c.Dir, "output") }

// Node is what plugins get to know of the node that they are on.
type Node struct {
	ID, Name string
	MHz      int64 // of all its cores, as the scheduler counts them; 0: not known yet
}

// Driver is a driver.Driver whose work a plugin does.
type Driver struct {
	cfg     Config
	host    *pluginhost.Host
	changed lifecycle.Signal
	say     *sayer

	mu    sync.Mutex
	now   *connection // nil: the plugin is not connected
	why   error       // then, or while it does not answer: for what reason
	info  driver.Info
	tasks map[string]*task // those that live, by id
	// starting are the calls under way that start a task, by its id.
	starting map[string]*starting
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Follower = (*Driver)(nil)
	_ driver.Keeper   = (*Driver)(nil)

	_ driver.NetworkMaker = (*Driver)(nil)
)

// New returns a driver that does nothing before Follow. It is named as the plugin said last, and after its block when
// it was never there.
func New(cfg Config) *Driver {
	d := &Driver{cfg: cfg, tasks: map[string]*task{}, starting: map[string]*starting{}, say: &sayer{}}
	d.host = pluginhost.New(cfg.Config, pluginhost.Use{
		Kind:    pluginhost.Driver,
		HandsOn: cfg.Device != nil,
		Open:    d.open,
		Lost: func(err error) {
			d.set(nil, err)
			d.say.now(driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()})
		},
		Answers: d.answers,
		Holds:   func() bool { return d.holds() || d.cfg.outputs() },
		Kept:    cfg.outputs,
	})
	d.why = fault.New(fault.NotReady, "use", d.host.Subject(), "it is being started")
	d.info = driver.Info{
		Name:         d.Name(),
		Unknown:      true,
		Capabilities: driver.Capabilities{Evidence: driver.EvidenceDriver},
	}
	return d
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.host.Name() }

// Info implements driver.Driver. What a plugin takes and can do is known when it was connected once.
func (d *Driver) Info() driver.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

// Fingerprint implements driver.Driver: whether the plugin is there. What it finds is told by Follow.
func (d *Driver) Fingerprint(context.Context) driver.Fingerprint {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why != nil {
		return driver.Fingerprint{Health: driver.Unhealthy, Description: d.why.Error()}
	}
	return driver.Fingerprint{Health: driver.Healthy}
}

// Follow implements driver.Follower: it keeps the plugin running, and tells what it finds on the node, until ctx ends.
// A plugin that holds tasks goes on then. One that is none of drivers is handed on, and then there is no such driver.
func (d *Driver) Follow(ctx context.Context, say func(driver.Fingerprint)) error {
	d.say.begin(say)
	err := d.host.Run(ctx)
	if another := (*pluginhost.Another)(nil); errors.As(err, &another) {
		d.set(nil, err)
		d.cfg.Device()
		return driver.ErrNoDriver
	}
	return err
}

// holds reports whether tasks of the plugin live.
func (d *Driver) holds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tasks) > 0
}

func (d *Driver) set(s *connection, why error) {
	d.mu.Lock()
	d.now = s
	d.why = why
	if s != nil {
		d.info = s.info
	}
	d.mu.Unlock()
	d.changed.Notify()
}

// answers notes whether a plugin that is connected answers. While it does not, no task is started with it.
func (d *Driver) answers(why error) {
	d.mu.Lock()
	connected := d.now != nil
	if connected {
		d.why = why
	}
	d.mu.Unlock()
	if connected { // otherwise it is said already why not
		d.say.silent(why)
	}
}

// usable is the plugin that is connected and answers, or why there is none.
func (d *Driver) usable() (*connection, error) {
	s, err := d.connection()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.why != nil {
		return nil, d.why
	}
	return s, err
}

// connection is the plugin that is connected now, or why there is none.
func (d *Driver) connection() (*connection, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		return nil, fault.WithHint(fault.Wrap(d.why, fault.NotReady, "use", "driver "+strconv.Quote(d.Name())),
			"what it said stands in "+d.host.StderrPath())
	}
	return d.now, nil
}

// wait waits for a plugin that is not the one that was connected before, or for a moment.
func (d *Driver) wait(ctx context.Context, before *connection) (*connection, error) {
	var late <-chan time.Time
	if before != nil {
		timer := time.NewTimer(deadNoticed)
		defer timer.Stop()
		late = timer.C
	}
	for {
		changed := d.changed.C()
		if s, err := d.connection(); err == nil && s != before {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-late:
			before = nil // it lives, and said itself that it cannot answer
		}
	}
}

// deadNoticed is how long the end of a plugin may take to be noticed by its other calls.
const deadNoticed = 5 * time.Second

// connectSoon is how long a task that is looked for waits for a plugin that is being started.
const connectSoon = 10 * time.Second

// soon is the plugin that is connected now, or in a moment.
func (d *Driver) soon(ctx context.Context) (*connection, error) {
	limited, cancel := context.WithTimeout(ctx, connectSoon)
	defer cancel()
	if s, err := d.wait(limited, nil); err == nil {
		return s, nil
	}
	return d.connection()
}

func capabilities(c *driverpb.DriverCapabilities) driver.Capabilities {
	out := driver.Capabilities{
		SendSignals: c.GetSendSignals(),
		Exec:        c.GetExec(),
		Evidence:    driver.EvidenceDriver,
	}
	switch c.GetFsIsolation() {
	case driverpb.FSIsolation_CHROOT:
		out.FSIsolation = driver.IsolationChroot
	case driverpb.FSIsolation_IMAGE:
		out.FSIsolation = driver.IsolationImage
	default: // those that see the node's tree, or parts of it at the same paths
		out.FSIsolation = driver.IsolationNone
	}
	// A plugin that cannot say what it mounts says nothing, which stands for all.
	if c.GetMountConfigs() == driverpb.MountConfigs_NO_MOUNTS {
		out.Mounts = driver.MountNone
	}
	out.Networks = networksOf(c)
	return out
}

func health(h driverpb.HealthState) driver.Health {
	switch h {
	case driverpb.HealthState_HEALTHY:
		return driver.Healthy
	case driverpb.HealthState_UNDETECTED:
		return driver.Undetected
	}
	return driver.Unhealthy
}

func subject(id string) string { return fmt.Sprintf("task %q", id) }

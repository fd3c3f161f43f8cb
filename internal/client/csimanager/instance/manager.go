// Package instance owns the connections to CSI plugins that run as jobs on this node: one per declared instance. It
// waits for the socket, probes, negotiates, watches the connection, and drains. The volumes' state belongs to the
// plugin id and lives in csimanager/node; nothing of it is here.
package instance

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// Tasks hears how the plugins that run as tasks are; taskhooks.CSIPluginSupervisor implements it.
type Tasks interface {
	// Health says that an instance became healthy or stopped being so, for events on its task.
	Health(i dynamicplugins.Info, healthy bool, reason string)
	// Timeout says that a plugin was not well for its whole health timeout, and more than once found so. It is said
	// once for all roles of a task.
	Timeout(ctx context.Context, i dynamicplugins.Info, reason string)
}

// Config wires a manager.
type Config struct {
	Registry *dynamicplugins.Registry
	Node     ids.Node
	// Tasks are the plugins' tasks.
	Tasks Tasks
	// Clock counts the time of calls to plugins; nil: Go's alone.
	Clock *bootclock.Clock
	// Dirs tells of what appears where sockets are awaited; nil: a hostfs.Directories of its own.
	Dirs *hostfs.Directories
	Log  *slog.Logger
}

// Manager holds the instances.
type Manager struct {
	cfg     Config
	loop    *reconcile.Loop[dynamicplugins.Key]
	changed lifecycle.Signal
	mu      sync.Mutex
	insts   map[dynamicplugins.Key]*instance
	group   *lifecycle.Group // of the active Run, for connection watches
	news    []func()         // what Health is to hear once the lock is free
}

// instance is one declared instance and its connection.
type instance struct {
	info     dynamicplugins.Info
	client   *csi.Client
	facts    csi.Instance
	state    plugin.State
	reason   string
	leases   int
	since    time.Time // when it was last well, or began; the health timeout counts from here
	misses   int       // how often it was found unwell since then
	updated  time.Time
	wasReady bool
}

// New returns a manager that does nothing before Run.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, insts: map[dynamicplugins.Key]*instance{}}
	m.loop = reconcile.New(reconcile.Config{Name: "plugin instances", Parallel: 8, MinPause: 50 * time.Millisecond,
		MaxPause: 5 * time.Second}, m.work)
	return m
}

// Run follows the registry until ctx ends; then every connection is closed. The plugins themselves go on running.
func (m *Manager) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	if m.cfg.Dirs == nil {
		m.cfg.Dirs = hostfs.NewDirectories(m.cfg.Log)
		g.Go("directories", func() error { return m.cfg.Dirs.Run(gctx) })
	}
	watch := newSocketWatch(m.cfg.Dirs)
	m.mu.Lock()
	m.group = g
	m.mu.Unlock()
	g.Go("probe", func() error { return m.loop.Run(gctx) })
	g.Go("sockets", func() error { return watch.run(gctx, m.markAwaiting) })
	g.Go("registry", func() error { return m.follow(gctx, watch) })
	err := g.Wait()
	m.closeAll()
	return err
}

// follow keeps the set of instances equal to the registry's.
func (m *Manager) follow(ctx context.Context, watch *socketWatch) error {
	for {
		ch := m.cfg.Registry.Changed()
		m.sync(m.cfg.Registry.List(), watch)
		select {
		case <-ctx.Done():
			watch.keep(nil)
			return nil
		case <-ch:
		}
	}
}

func (m *Manager) sync(infos []dynamicplugins.Info, watch *socketWatch) {
	m.mu.Lock()
	defer m.unlock()
	declared := map[dynamicplugins.Key]bool{}
	watch.keep(infos)
	for _, i := range infos {
		declared[i.Key()] = true
		inst := m.insts[i.Key()]
		if inst == nil {
			inst = &instance{state: plugin.Awaiting, reason: awaiting(i), since: time.Now(), updated: time.Now()}
			m.insts[i.Key()] = inst
		}
		inst.info = i
		m.loop.Mark(i.Key())
	}
	for k, inst := range m.insts {
		if !declared[k] && inst.state != plugin.Draining {
			m.transition(inst, plugin.Draining, "its task is stopping")
			m.loop.Mark(k)
		}
	}
	m.changed.Notify()
}

const awaitingSocket = "waiting for the plugin's socket"

// awaiting is why an instance without a socket is not ready, for people.
func awaiting(i dynamicplugins.Info) string {
	if i.Ended == "" {
		return awaitingSocket
	}
	return awaitingSocket + "; its last process ended before it served: " + i.Ended
}

// unlock frees the lock and then reports to Health what happened under it: Health may write to disk.
func (m *Manager) unlock() {
	news := m.news
	m.news = nil
	m.mu.Unlock()
	for _, tell := range news {
		tell()
	}
}

// markAwaiting wakes the instances that wait for a socket: a file appeared in one of their directories.
func (m *Manager) markAwaiting() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, inst := range m.insts {
		if inst.client == nil {
			m.loop.Mark(k)
		}
	}
}

// States lists every known instance, for the node's registration.
func (m *Manager) States() []*plugin.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*plugin.Instance, 0, len(m.insts))
	for _, inst := range m.insts {
		out = append(out, inst.describe(m.cfg.Node))
	}
	slices.SortFunc(out, compareInstances)
	return out
}

// Changed implements Plugins.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// Use implements Plugins: the instance that was declared last of those that are ready.
func (m *Manager) Use(id ids.Plugin, role plugin.Role) (*Connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	best, why := m.current(id, role)
	if best == nil {
		return nil, fault.New(fault.NotReady, "use", string(role)+` plugin "`+string(id)+`"`, why)
	}
	best.leases++
	return &Connection{Client: best.client, Facts: best.facts, Info: best.info, Release: m.releaser(best)}, nil
}

// AtOnce implements Plugins.
func (m *Manager) AtOnce(id ids.Plugin, role plugin.Role) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if best, _ := m.current(id, role); best != nil {
		return best.info.MaxParallel
	}
	return 0
}

// current is the ready instance of a plugin that was declared last; nil: there is none, and why. The caller holds the
// lock.
func (m *Manager) current(id ids.Plugin, role plugin.Role) (best *instance, why string) {
	why = "no task of this plugin runs on this node"
	for k, inst := range m.insts {
		if k.Plugin != id || k.Role != role {
			continue
		}
		if inst.state != plugin.Ready {
			if best == nil {
				why = string(inst.state) + ": " + inst.reason
			}
			continue
		}
		if best == nil || inst.info.Declared.After(best.info.Declared) {
			best = inst
		}
	}
	return best, why
}

// releaser gives back one lease of an instance. The caller holds the lock.
func (m *Manager) releaser(inst *instance) func() {
	key := inst.info.Key()
	var once sync.Once
	return func() {
		once.Do(func() {
			m.mu.Lock()
			inst.leases--
			idle := inst.leases == 0 && inst.state == plugin.Draining
			m.mu.Unlock()
			if idle {
				m.loop.Mark(key)
			}
		})
	}
}

func (m *Manager) closeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, inst := range m.insts {
		m.closeClient(inst)
		delete(m.insts, k)
	}
	m.group = nil
}

// closeClient ends the connection. The caller holds the lock.
func (m *Manager) closeClient(inst *instance) {
	if inst.client == nil {
		return
	}
	if err := inst.client.Close(); err != nil {
		m.cfg.Log.Debug("closing a plugin connection", "error", err)
	}
	inst.client = nil
}

package instance

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/port/csi"
)

// work brings one instance on: connect, probe, negotiate, probe again later; or drain and forget it.
func (m *Manager) work(ctx context.Context, key dynamicplugins.Key) (reconcile.Result, error) {
	m.mu.Lock()
	inst := m.insts[key]
	if inst == nil {
		m.mu.Unlock()
		return reconcile.Done(), nil
	}
	if inst.state == plugin.Draining {
		defer m.mu.Unlock()
		return m.drain(key, inst), nil
	}
	info, client := inst.info, inst.client
	m.mu.Unlock()

	if client == nil {
		if _, err := os.Lstat(info.Socket); err != nil {
			m.set(key, plugin.Awaiting, awaiting(info))
			return m.untilTimeout(ctx, key, "its socket did not appear"), nil
		}
		var err error
		if client, err = m.connect(ctx, key, info); err != nil {
			return reconcile.Result{}, m.unwell(ctx, key, plugin.Probing, err)
		}
	}
	return m.probe(ctx, key, info, client)
}

// drain closes an instance when its last lease ended. One that was declared again meanwhile begins anew. The caller
// holds the lock.
func (m *Manager) drain(key dynamicplugins.Key, inst *instance) reconcile.Result {
	if inst.leases > 0 {
		return reconcile.Done() // the last release marks the key
	}
	m.closeClient(inst)
	delete(m.insts, key)
	m.changed.Notify()
	for _, i := range m.cfg.Registry.List() {
		if i.Key() == key {
			m.insts[key] = &instance{
				info:    i,
				state:   plugin.Awaiting,
				reason:  awaiting(i),
				since:   time.Now(),
				updated: time.Now(),
			}
			return reconcile.Again(0, awaitingSocket)
		}
	}
	return reconcile.Done()
}

// connect dials and files the client with a watch on its connection.
func (m *Manager) connect(ctx context.Context, key dynamicplugins.Key, info dynamicplugins.Info) (*csi.Client, error) {
	limit := answerWithin(info.HealthTimeout)
	dial, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := csi.Dial(dial, info.Socket, csi.Options{
		Plugin: string(info.Plugin),
		Clock:  m.cfg.Clock,
		Log:    m.cfg.Log,
	})
	if err != nil {
		return nil, silence(dial, err, info, limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	inst := m.insts[key]
	if inst == nil || m.group == nil {
		return nil, errors.Join(
			fault.New(fault.Canceled, "connect to", string(info.Plugin), "the instance was withdrawn"), client.Close())
	}
	inst.client = client
	m.group.Go("watch "+string(info.Plugin), func() error { return m.watch(key, client) })
	return client, nil
}

// watch turns the end of a connection into an event: the plugin's process died or closed it.
func (m *Manager) watch(key dynamicplugins.Key, client *csi.Client) error {
	m.mu.Lock()
	done := m.group.Done()
	m.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-client.Lost():
	}
	m.mu.Lock()
	inst := m.insts[key]
	if inst != nil && inst.client == client {
		m.closeClient(inst)
		inst.beginAnew()
		if inst.state != plugin.Draining {
			m.transition(inst, plugin.Awaiting, hungUp)
		}
	}
	m.unlock()
	m.changed.Notify()
	m.loop.Mark(key)
	return nil
}

// probe asks for health and, once per connection, for what the plugin offers.
func (m *Manager) probe(
	ctx context.Context, key dynamicplugins.Key, info dynamicplugins.Info, client *csi.Client,
) (reconcile.Result, error) {
	ready, err := m.ask(ctx, info, client)
	if err != nil {
		return reconcile.Result{}, m.unwell(ctx, key, plugin.Failing, err)
	}
	if ready != csi.Ready {
		// Initialising is not failing: it may take as long as it takes, and the health timeout has been met.
		m.met(key)
		m.set(key, plugin.Probing, "the plugin says that it is still initialising")
		return reconcile.Again(500*time.Millisecond, "the plugin is initialising"), nil
	}
	facts, ok := client.Instance()
	if !ok {
		if facts, err = client.Negotiate(ctx, rolesOf(info.Role)); err != nil {
			return reconcile.Result{}, m.unwell(ctx, key, plugin.Failing, err)
		}
	}
	m.mu.Lock()
	defer m.unlock()
	if inst := m.insts[key]; inst != nil && inst.client == client && inst.state != plugin.Draining {
		inst.facts = facts
		inst.wasReady = true
		inst.beginAnew()
		if inst.state != plugin.Ready {
			m.transition(inst, plugin.Ready, "")
			m.changed.Notify()
		}
	}
	return reconcile.Again(reprobeAfter(info.HealthTimeout), "healthy; probed again later"), nil
}

// ask makes one probe. A plugin that keeps silent does not answer: that is said, and the calls under way at it go on to
// their own ends, which are not known before.
func (m *Manager) ask(ctx context.Context, info dynamicplugins.Info, client *csi.Client) (csi.Readiness, error) {
	limit := answerWithin(info.HealthTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ready, err := client.Probe(ctx)
	if err != nil {
		return ready, silence(ctx, err, info, limit)
	}
	return ready, nil
}

// silence says so when an error is nothing but that.
func silence(ctx context.Context, err error, info dynamicplugins.Info, limit time.Duration) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) && !csi.TimedOut(err) {
		return err
	}
	return fault.WithHint(
		fault.New(fault.Unavailable, "probe", `plugin "`+string(info.Plugin)+`"`,
			"the plugin does not answer: it was silent for "+limit.String()),
		"see whether the process of its task is stopped or hangs; it is asked again")
}

// unwell files why an instance is not ready, and has its task restarted when that lasts.
func (m *Manager) unwell(ctx context.Context, key dynamicplugins.Key, s plugin.State, err error) error {
	if ctx.Err() != nil {
		return err // the agent ends: that says nothing about the plugin
	}
	m.set(key, s, err.Error())
	m.checkTimeout(ctx, key, err.Error())
	return err
}

// How often a healthy plugin is asked again, and how long it may take to answer. A plugin that stops answering is known
// to within both and the pause of the loop, and within its health timeout it is asked several times. The end of its
// process is an event and needs no probe.
const (
	reprobe     = 5 * time.Second
	patience    = 5 * time.Second
	minPatience = time.Second // a busy machine is no fault of the plugin
)

func reprobeAfter(healthTimeout time.Duration) time.Duration {
	if healthTimeout <= 0 {
		return reprobe
	}
	return min(reprobe, healthTimeout/4)
}

func answerWithin(healthTimeout time.Duration) time.Duration {
	if healthTimeout <= 0 {
		return patience
	}
	return min(patience, max(minPatience, healthTimeout/4))
}

func rolesOf(r plugin.Role) csi.Roles {
	if r == plugin.RoleController {
		return csi.RoleController
	}
	return csi.RoleNode
}

func (m *Manager) set(key dynamicplugins.Key, s plugin.State, reason string) {
	m.mu.Lock()
	defer m.unlock()
	if inst := m.insts[key]; inst != nil && inst.state != plugin.Draining &&
		(inst.state != s || inst.reason != reason) {
		m.transition(inst, s, reason)
		m.changed.Notify()
	}
}

// hungUp is why an instance whose process ended is not ready. Whether that was asked for, or is a fault, is known to
// its task, which tells it.
const hungUp = "the plugin closed its connection"

// transition moves an instance and has it reported to its task. The caller holds the lock and ends with unlock.
func (m *Manager) transition(inst *instance, s plugin.State, reason string) {
	before, info := inst.state, inst.info
	inst.state = s
	inst.reason = reason
	inst.updated = time.Now()
	switch {
	case s == plugin.Ready:
		m.cfg.Log.Info("storage plugin is ready", logkey.Plugin, info.Plugin, logkey.Role, info.Role, logkey.Alloc,
			info.Alloc)
		m.news = append(m.news, func() { m.cfg.Tasks.Health(info, true, "") })
	case before == plugin.Ready:
		tell := m.cfg.Log.Warn
		if reason == hungUp || s == plugin.Draining {
			tell = m.cfg.Log.Info
		}
		tell("storage plugin is no longer ready", logkey.Plugin, info.Plugin, logkey.Role, info.Role, "reason", reason)
		m.news = append(m.news, func() { m.cfg.Tasks.Health(info, false, reason) })
	}
}

func (m *Manager) met(key dynamicplugins.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inst := m.insts[key]; inst != nil {
		inst.beginAnew()
	}
}

// beginAnew lets the health timeout begin: the plugin was well until now, or its process begins.
func (i *instance) beginAnew() { i.since, i.misses = time.Now(), 0 }

// untilTimeout waits for the socket's event. It looks again every second besides, for a directory that is made later
// than its plugin is declared cannot be watched.
func (m *Manager) untilTimeout(ctx context.Context, key dynamicplugins.Key, reason string) reconcile.Result {
	left := m.checkTimeout(ctx, key, reason)
	return reconcile.Again(min(max(left, time.Millisecond), time.Second), awaitingSocket)
}

// enoughMisses is how often a plugin is found unwell before it is restarted, however much time has passed: one probe
// may fail for a reason of this machine's.
const enoughMisses = 2

// checkTimeout counts that an instance was found unwell. It tells when that lasted for its health timeout, and returns
// what is left until then. All roles of the task begin anew with it: it is one process, which is restarted once.
func (m *Manager) checkTimeout(ctx context.Context, key dynamicplugins.Key, reason string) time.Duration {
	m.mu.Lock()
	inst := m.insts[key]
	if inst == nil || inst.info.HealthTimeout <= 0 || inst.state == plugin.Draining {
		m.mu.Unlock()
		return reprobe
	}
	inst.misses++
	left := inst.info.HealthTimeout - time.Since(inst.since)
	over := left <= 0 && inst.misses >= enoughMisses
	info := inst.info
	if over {
		for _, other := range m.insts {
			if other.info.Alloc == info.Alloc && other.info.Task == info.Task {
				other.beginAnew()
			}
		}
	}
	m.mu.Unlock()
	if over {
		m.cfg.Tasks.Timeout(ctx, info, reason)
		return info.HealthTimeout
	}
	return left
}

// describe is the instance as the servers see it.
func (i *instance) describe(node ids.Node) *plugin.Instance {
	out := &plugin.Instance{
		Plugin:  i.info.Plugin,
		Role:    i.info.Role,
		Alloc:   i.info.Alloc,
		Node:    node,
		State:   i.state,
		Reason:  i.reason,
		Scope:   i.info.Scope,
		Updated: i.updated.UTC(),
	}
	if !i.wasReady {
		return out
	}
	f := i.facts
	out.Provider, out.Version = f.Name, f.VendorVersion
	out.StorageNode, out.MaxVolumes = f.NodeID, f.MaxVolumes
	if len(f.Topology) > 0 {
		out.Topology = &plugin.Topology{Segments: f.Topology}
	}
	out.Capabilities = Capabilities(f)
	return out
}

// Capabilities translates what was negotiated into the model's words.
func Capabilities(f csi.Instance) plugin.Capabilities {
	return plugin.Capabilities{
		ControllerService:     f.Plugin.Has(csi.CapController),
		Topology:              f.TopologyAware(),
		ExpandOnline:          f.Expansion.Has(csi.ExpandOnline),
		ExpandOffline:         f.Expansion.Has(csi.ExpandOffline),
		CreateDelete:          f.Controller.Has(csi.CapCreateDelete),
		Attach:                f.Controller.Has(csi.CapAttach),
		AttachReadOnly:        f.Controller.Has(csi.CapAttachReadOnly),
		ListVolumes:           f.Controller.Has(csi.CapListVolumes),
		ListPublishedNodes:    f.Controller.Has(csi.CapListAttachedNodes),
		GetCapacity:           f.Controller.Has(csi.CapGetCapacity),
		CreateSnapshot:        f.Controller.Has(csi.CapSnapshot),
		ListSnapshots:         f.Controller.Has(csi.CapListSnapshots),
		Clone:                 f.Controller.Has(csi.CapClone),
		ControllerExpand:      f.Controller.Has(csi.CapExpand),
		Modify:                f.Controller.Has(csi.CapModify),
		Stage:                 f.Stages(),
		Stats:                 f.Node.Has(csi.CapStats),
		NodeExpand:            f.Node.Has(csi.CapNodeExpand),
		VolumeMountGroup:      f.Node.Has(csi.CapMountGroup),
		SingleNodeMultiWriter: f.Controller.Has(csi.CapSingleNodeModesCtrl) || f.Node.Has(csi.CapSingleNodeModesNode),
	}
}

func compareInstances(a, b *plugin.Instance) int {
	return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Alloc, b.Alloc))
}

// Package devicemanager owns the devices of a node: which plugins offer some, how each is, and how what a task was
// given is made ready for it. Only package client and the node's description import it.
package devicemanager

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	model "berth/internal/model/device"
	"berth/internal/port/device"
)

// Config wires a manager.
type Config struct {
	Plugins []device.Plugin
	// Ill hears of each instance that is unhealthy or gone since the last word, with the reason; empty: it is well
	// again.
	Ill func(k model.Kind, id, reason string)
	Log *slog.Logger
}

// Manager looks after the plugins. Its methods may be called from every goroutine, before Run too.
type Manager struct {
	cfg     Config
	changed lifecycle.Signal
	added   lifecycle.Signal
	looked  chan struct{} // closed when each of the first plugins has said how it is

	mu      sync.Mutex
	plugins []device.Plugin
	states  map[device.Plugin]device.State
	groups  []model.Group // of all plugins, as the node says them
}

// New returns a manager that does nothing before Run.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg:     cfg,
		looked:  make(chan struct{}),
		plugins: cfg.Plugins,
		states:  map[device.Plugin]device.State{},
	}
	m.look()
	return m
}

// look notes that the first plugins have all said how they are. The caller holds mu, or is New.
func (m *Manager) look() {
	for _, p := range m.cfg.Plugins {
		if _, said := m.states[p]; !said {
			return
		}
	}
	select {
	case <-m.looked:
	default:
		close(m.looked)
	}
}

// Looked is closed when each plugin that was there at the start has said how it is.
func (m *Manager) Looked() <-chan struct{} { return m.looked }

// Run follows every plugin, those too that are added later, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("plugins", func() error {
		for followed := 0; ; {
			added := m.added.C()
			all := m.all()
			for _, p := range all[followed:] {
				g.Go("device plugin "+p.Name(), func() error {
					return p.Follow(gctx, func(s device.State) { m.record(p, s) })
				})
			}
			followed = len(all)
			select {
			case <-gctx.Done():
				return nil
			case <-added:
			}
		}
	})
	return g.Wait()
}

// Add takes one more plugin.
func (m *Manager) Add(p device.Plugin) {
	m.mu.Lock()
	m.plugins = append(slices.Clip(m.plugins), p)
	m.mu.Unlock()
	m.added.Notify()
}

func (m *Manager) all() []device.Plugin {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plugins // they are only added
}

// record keeps a plugin's state, and tells what changed by it.
func (m *Manager) record(p device.Plugin, s device.State) {
	m.mu.Lock()
	old, known := m.states[p]
	m.states[p] = s
	m.look()
	before := m.groups
	m.groups = m.merge()
	now := m.groups
	m.mu.Unlock()
	if !known || old.Reason != s.Reason || len(old.Groups) != len(s.Groups) {
		say, count := m.cfg.Log.Info, 0
		for _, g := range s.Groups {
			count += len(g.Instances)
		}
		if s.Reason != "" {
			say = m.cfg.Log.Warn
		}
		say("device plugin", "device", p.Name(), "devices", count, "reason", s.Reason)
	}
	if reflect.DeepEqual(before, now) {
		return
	}
	m.tell(before, now)
	m.changed.Notify()
}

// merge is what all plugins find. Of a plugin that is not there no device is healthy. A kind that two plugins find is
// the first one's. The caller holds mu.
func (m *Manager) merge() []model.Group {
	var out []model.Group
	owner := map[model.Kind]string{}
	for _, p := range m.plugins {
		s := m.states[p]
		for _, g := range s.Groups {
			if by := owner[g.Kind()]; by != "" {
				m.cfg.Log.Warn("two plugins find devices of one kind; those of the second are left out", "device",
					p.Name(), "kind", g.Kind().String(), "first", by)
				continue
			}
			owner[g.Kind()] = p.Name()
			if s.Reason != "" {
				g.Instances = slices.Clone(g.Instances)
				for i := range g.Instances {
					g.Instances[i].Healthy = false
					g.Instances[i].Reason = s.Reason
				}
			}
			out = append(out, g)
		}
	}
	model.Sort(out)
	return out
}

// gone is the reason of an instance that its plugin does not find any more.
const gone = "its plugin does not find it any more"

// tell says of each instance that became unhealthy, was lost, or is well again.
func (m *Manager) tell(before, now []model.Group) {
	if m.cfg.Ill == nil {
		return
	}
	old, current := reasons(before), reasons(now)
	for at, was := range old {
		is, there := current[at]
		if !there {
			is = gone
		}
		if is != was {
			m.cfg.Ill(at.Kind, at.id, is)
		}
	}
	for at, is := range current {
		if _, there := old[at]; !there && is != "" {
			m.cfg.Ill(at.Kind, at.id, is)
		}
	}
}

type instance struct {
	model.Kind
	id string
}

// reasons are why instances are not healthy; empty: they are.
func reasons(groups []model.Group) map[instance]string {
	out := map[instance]string{}
	for _, g := range groups {
		for _, i := range g.Instances {
			reason := i.Reason
			switch {
			case i.Healthy:
				reason = ""
			case reason == "":
				reason = "its plugin says that it is unhealthy"
			}
			out[instance{g.Kind(), i.ID}] = reason
		}
	}
	return out
}

// Groups are the devices of the node, frozen.
func (m *Manager) Groups() []model.Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups
}

// Changed is closed at the next change of any device. Take it before Groups.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// OfferedBy names the plugin that finds devices of a kind; empty: none does.
func (m *Manager) OfferedBy(k model.Kind) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owner(k); p != nil {
		return p.Name()
	}
	return ""
}

// owner is the plugin that finds devices of a kind; nil: none does. The caller holds mu.
func (m *Manager) owner(k model.Kind) device.Plugin {
	for _, p := range m.plugins {
		for _, group := range m.states[p].Groups {
			if group.Kind() == k {
				return p
			}
		}
	}
	return nil
}

// Stats are the figures that the plugins reported last.
func (m *Manager) Stats() []model.Stats {
	var out []model.Stats
	for _, p := range m.all() {
		out = append(out, p.Stats()...)
	}
	slices.SortStableFunc(out, func(a, b model.Stats) int { return strings.Compare(a.Kind.String(), b.Kind.String()) })
	return out
}

// Reserve makes what a task was given ready for it. What the plugins give is one: variables and paths of two that
// contradict each other are refused, and those that are not theirs to give left out.
func (m *Manager) Reserve(ctx context.Context, given []model.Given) (*device.Provided, error) {
	out := &device.Provided{Env: map[string]string{}}
	for _, g := range given {
		p, err := m.offers(g)
		if err != nil {
			return nil, err
		}
		r, err := p.Reserve(ctx, g.IDs)
		if err != nil {
			return nil, fault.Note(err, "", fmt.Sprintf("device plugin %q", p.Name()))
		}
		var left []string
		for _, k := range slices.Sorted(maps.Keys(r.Env)) {
			was, there := out.Env[k]
			switch {
			case device.Reserved(k):
				left = append(left, k)
			case there && was != r.Env[k]:
				return nil, fault.New(fault.Invalid, "reserve", "devices "+g.Kind.String(),
					fmt.Sprintf("variable %s is another's of the task's devices already", k))
			default:
				out.Env[k] = r.Env[k]
			}
		}
		if len(left) > 0 {
			out.LeftOut = append(out.LeftOut, device.LeftOut{Plugin: p.Name(), Variables: left})
		}
		out.Mounts = append(out.Mounts, r.Mounts...)
		out.Devices = append(out.Devices, r.Devices...)
	}
	return out, nil
}

// offers finds the plugin of what was given. An instance that is unhealthy is not made ready for another task.
func (m *Manager) offers(g model.Given) (device.Plugin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := reasons(m.groups)
	for _, id := range g.IDs {
		reason, there := why[instance{g.Kind, id}]
		switch {
		case !there:
			return nil, fault.WithHint(
				fault.New(fault.NotReady, "reserve", fmt.Sprintf("device %s[%s]", g.Kind, id),
					"no plugin of this node finds it"),
				"look which devices it has (berth node status -self -verbose), or have the task placed anew "+
					"(berth alloc stop ID)")
		case reason != "":
			return nil, fault.WithHint(fault.New(fault.NotReady, "reserve", fmt.Sprintf("device %s[%s]", g.Kind, id),
				"it is not healthy: "+reason), "mend it, or have the task placed anew (berth alloc stop ID)")
		}
	}
	if p := m.owner(g.Kind); p != nil {
		return p, nil
	}
	return nil, fault.New(fault.NotReady, "reserve", "devices "+g.Kind.String(), "no plugin of this node offers them")
}

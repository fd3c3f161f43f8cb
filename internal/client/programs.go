package client

import (
	"slices"
	"sync"
	"time"

	"berth/internal/client/allocs"
	"berth/internal/client/devicemanager"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	model "berth/internal/model/device"
	"berth/internal/port/device"
	externaldevice "berth/internal/port/device/external"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
	"berth/internal/port/pluginhost"
)

// programs makes drivers and devices of the plugins that are programs of their own. Which of both one is, it says
// itself: what is not recorded from an earlier run is taken for a driver, and handed on when it is none.
func (c *Client) programs(table *allocs.Table, builtIn []driver.Driver) ([]driver.Driver, *devicemanager.Manager) {
	offered := &offered{table: table}
	cfg := devicemanager.Config{Ill: offered.ill, Log: c.log}
	plugin := func(p pluginhost.Config) device.Plugin {
		return externaldevice.New(externaldevice.Config{Config: p, Holds: offered.holds})
	}
	var drivers []pluginhost.Config
	for _, p := range c.cfg.PluginPrograms {
		p.Dirs, p.Log = c.dirs, c.log
		if p.Recorded() == pluginhost.Device {
			cfg.Plugins = append(cfg.Plugins, plugin(p))
		} else {
			drivers = append(drivers, p)
		}
	}
	devices := devicemanager.New(cfg)
	offered.devices = devices
	var out []driver.Driver
	names := &named{by: map[string]string{}}
	for _, d := range builtIn {
		names.claim(d.Name(), "")
	}
	for _, p := range drivers {
		d := c.external(p, table)
		d.Claim = func(name string) bool { return names.claim(name, p.Block) }
		d.Device = func() { devices.Add(plugin(p)) }
		out = append(out, external.New(d))
	}
	return out, devices
}

// named are the names of drivers, each with the block of the plugin that calls itself so; built-in ones have none.
type named struct {
	mu sync.Mutex
	by map[string]string
}

// claim gives a name to a plugin, unless another driver has it.
func (n *named) claim(name, block string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if has, there := n.by[name]; there {
		return has == block
	}
	n.by[name] = block
	return true
}

// external is how a plugin is run as a driver.
func (c *Client) external(p pluginhost.Config, table *allocs.Table) external.Config {
	return external.Config{
		Config:   p,
		Launcher: c.launcher,
		Node: func() external.Node { // called when tasks start, and then all parts are there
			return external.Node{
				ID:   string(c.link.Node()),
				Name: c.cfg.Name,
				MHz:  c.host.Node().Resources.CPUShares,
			}
		},
		Events: func(e external.Event) { emit(table, e.Alloc, e.Task, driverEvent(e)) },
	}
}

// driverEvent is what a driver says of a task, as people read it.
func driverEvent(e external.Event) *alloc.TaskEvent {
	text := "Driver: " + e.Message
	return &alloc.TaskEvent{
		Type:           alloc.EventDriver,
		Time:           time.Now().UnixNano(),
		DisplayMessage: text,
		Message:        e.Message,
		Details:        e.Annotations,
	}
}

// deviceHook makes what a task was given ready for it.
func (c *Client) deviceHook() *taskhooks.Device { return &taskhooks.Device{Devices: c.beside.devices} }

// offered connects the devices of the node with the tasks that were given some.
type offered struct {
	table   *allocs.Table
	devices *devicemanager.Manager
}

// each calls f for every task of the node that has devices and may run.
func (o *offered) each(f func(t *holderTask) (done bool)) {
	for _, r := range o.table.Runners() {
		if gone, _ := r.ProcessesGone(); gone {
			continue
		}
		b := r.Bundle()
		for name, given := range b.Alloc.Resources.Tasks {
			for _, g := range given.Devices {
				t := &holderTask{given: g, state: r.TaskStates()[name], emit: func(e *alloc.TaskEvent) {
					if task, err := r.Task(name); err == nil {
						task.Emit(e)
					}
				}}
				if f(t) {
					return
				}
			}
		}
	}
}

// holderTask is a task that was given devices of one kind.
type holderTask struct {
	given model.Given
	state *alloc.TaskState
	emit  func(*alloc.TaskEvent)
}

// said reports whether that is the last that was said of the health of the task's devices.
func (t *holderTask) said(event, text string) bool {
	if t.state == nil {
		return false
	}
	for _, e := range slices.Backward(t.state.Events) {
		if e.Type == alloc.EventDeviceHealthy || e.Type == alloc.EventDeviceFailing {
			return e.Type == event && e.Message == text
		}
	}
	return false
}

// holds reports whether a task has devices of a plugin, which then has to outlive the agent.
func (o *offered) holds(plugin string) (holds bool) {
	o.each(func(t *holderTask) bool {
		holds = o.devices.OfferedBy(t.given.Kind) == plugin
		return holds
	})
	return holds
}

// ill makes an event of the task that has a device whose health changed.
func (o *offered) ill(k model.Kind, id, reason string) {
	o.each(func(t *holderTask) bool {
		if t.given.Kind != k || !slices.Contains(t.given.IDs, id) {
			return false
		}
		event, text := alloc.EventDeviceHealthy, "Device "+k.String()+"["+id+"] is healthy again"
		if reason != "" {
			event = alloc.EventDeviceFailing
			text = "Device " + k.String() + "[" + id + "] is unhealthy: " + reason
		}
		if t.said(event, text) {
			return true // by the agent before this one
		}
		t.emit(&alloc.TaskEvent{
			Type:           event,
			Time:           time.Now().UnixNano(),
			DisplayMessage: text,
			Message:        text,
			Details:        map[string]string{"device": k.String(), "id": id, "reason": reason},
		})
		return true
	})
}

package controllers

import (
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// Executor picks the node that makes controller calls of a plugin: its home node for node-scoped plugins, else the
// first connected node with a ready controller instance. Without one it says what is waited for.
func (d *Dispatcher) Executor(s *state.Snap, id ids.Plugin, home ids.Node) (executor ids.Node, why string) {
	why = `no controller of plugin "` + string(id) + `" is ready`
	for n, i := range instances.Of(s, nil, id) {
		switch {
		case i.Role != plugin.RoleController || !i.Healthy():
		case i.Scope == plugin.ScopeNode && home != "" && home != n.ID:
			why = "the volume lives on node " + ids.Short(home) + ", whose controller is not ready"
		case !d.Connected(n.ID):
			why = notConnected(n.ID)
		default:
			return n.ID, ""
		}
	}
	return "", why
}

func notConnected(id ids.Node) string {
	return "node " + ids.Short(id) + ", which runs the plugin's controller, is not connected"
}

// Busy says why a call that was given to a node and not reported must not be given to another one yet; empty when it
// may: the node is back, or it is down and has been gone for longer than the call can take. That it is down says that
// nobody hears of it, not that its plugin has stopped.
func (d *Dispatcher) Busy(s *state.Snap, executor ids.Node, budget time.Duration) string {
	if executor == "" || d.Connected(executor) {
		return "" // connected anew: what it had under way was cancelled with its stream
	}
	text := "node " + ids.Short(executor) + " was making the call when its connection was lost; "
	if n := s.Node(nil, executor); n != nil && n.Status != node.StatusDown {
		return text + "waiting until it is back or down"
	}
	if left := budget + grace - time.Since(d.goneSince(executor)); left > 0 {
		return text + "it is down, and its plugin may be at the call still; waiting for the longest time that it takes"
	}
	return ""
}

// goneSince is when this leader lost a node, at the earliest when it began to lead.
func (d *Dispatcher) goneSince(id ids.Node) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.lost[id]; t.After(d.began) {
		return t
	}
	return d.began
}

// SameExecutor returns the executor of a call whose end may be unknown: the node where it was begun, as long as that
// can make it. Another node may take it over only when the first is down.
func (d *Dispatcher) SameExecutor(
	s *state.Snap, id ids.Plugin, begun, home ids.Node, budget time.Duration,
) (executor ids.Node, why string) {
	if why := d.Busy(s, begun, budget); why != "" {
		return "", why
	}
	if begun != "" && d.Connected(begun) && runsController(s, begun, id) {
		return begun, ""
	}
	return d.Executor(s, id, home)
}

func runsController(s *state.Snap, id ids.Node, p ids.Plugin) bool {
	n := s.Node(nil, id)
	return n != nil && slices.ContainsFunc(instances.On(s, nil, n), func(i *plugin.Instance) bool {
		return i.Plugin == p && i.Role == plugin.RoleController && i.Healthy()
	})
}

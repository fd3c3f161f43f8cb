package devices

import (
	"fmt"
	"strings"

	"berth/internal/model/device"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
)

// Filter passes nodes that have what the tasks of a group ask for, whoever has it now.
type Filter struct{ ask *Ask }

var _ filter.Filter = (*Filter)(nil)

// Prepare implements filter.Filter.
func (f *Filter) Prepare(r *filter.Request) bool {
	f.ask = NewAsk(r.Group)
	return f.ask != nil
}

// Check implements filter.Filter.
func (f *Filter) Check(n *node.Node) string {
	if _, enough := NewFree(n).Choose(f.ask, false); !enough {
		return KeyMissing
	}
	return ""
}

// Explain implements filter.Filter.
func (f *Filter) Explain(n *node.Node) (string, string) {
	look := "berth node status -verbose " + string(n.ID)
	for _, w := range f.ask.wants {
		healthy, unnamed := 0, false
		ill := ""
		var broken *rule
		var of *device.Group
		for i := range n.Resources.Devices {
			g := &n.Resources.Devices[i]
			fits, why := w.fits(g)
			if why != nil {
				broken, of = why, g
			}
			if !fits {
				continue
			}
			here := 0
			for k := range g.Instances {
				switch at := &g.Instances[k]; {
				case w.takes(at):
					here++
				case !at.Healthy:
					ill = fmt.Sprintf("%s[%s] is unhealthy: %s", g.Kind(), at.ID, at.Reason)
				default:
					unnamed = true
				}
			}
			healthy = max(healthy, here)
		}
		if healthy >= w.count {
			continue
		}
		switch asks := fmt.Sprintf("task %q asks %d of device %q", w.task, w.count, w.name); {
		case ill != "":
			return fmt.Sprintf("%s, and %d can be given there: %s", asks, healthy, ill), look
		case healthy > 0 || unnamed:
			return fmt.Sprintf("%s, and %d can be given there", asks, healthy), look
		case broken != nil && broken.broken != nil:
			return fmt.Sprintf("constraint %q of device %q cannot be read: %s", broken, w.name, broken.broken),
				"correct it in the job"
		case broken != nil:
			return fmt.Sprintf("constraint %q does not hold of device %s: %s", broken, of.Kind(), has(broken, of)), look
		}
		return fmt.Sprintf("the node has no device %q", w.name), look
	}
	return "the node has not enough devices for all that the group asks for together", look
}

// has says what a device has of what a constraint is about.
func has(r *rule, g *device.Group) string {
	v, there := value(r.left, g)
	if !there {
		return "it has no such value"
	}
	return fmt.Sprintf("it has %q", strings.TrimSpace(v.Text()))
}

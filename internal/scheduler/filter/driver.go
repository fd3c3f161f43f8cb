package filter

import (
	"fmt"
	"slices"

	"berth/internal/model/node"
)

// Drivers passes nodes on which every driver of the group's tasks is healthy.
type Drivers struct{ names []string }

// Prepare implements Filter.
func (d *Drivers) Prepare(r *Request) bool {
	d.names = nil
	for _, t := range r.Group.Tasks {
		if !slices.Contains(d.names, t.Driver) {
			d.names = append(d.names, t.Driver)
		}
	}
	return len(d.names) > 0
}

// Check implements Filter.
func (d *Drivers) Check(n *node.Node) string {
	for _, name := range d.names {
		if drv := n.Drivers[name]; drv == nil || !drv.Detected || !drv.Healthy {
			return "missing drivers"
		}
	}
	return ""
}

// Explain implements Filter.
func (d *Drivers) Explain(n *node.Node) (string, string) {
	for _, name := range d.names {
		drv := n.Drivers[name]
		if drv == nil || !drv.Detected {
			return fmt.Sprintf("the node has no task driver %q", name), "berth node status -verbose " + string(n.ID)
		}
		if !drv.Healthy {
			return fmt.Sprintf("task driver %q is unhealthy there: %s", name, orUnknown(drv.HealthDescription)),
				"berth node status -verbose " + string(n.ID)
		}
	}
	return "", ""
}

func orUnknown(s string) string {
	if s == "" {
		return "the driver gave no reason"
	}
	return s
}

// DriverMounts keeps tasks that mount volumes away from nodes whose driver can mount nothing.
type DriverMounts struct{ tasks []mountingTask }

type mountingTask struct{ name, driver, volume string }

// Prepare implements Filter.
func (d *DriverMounts) Prepare(r *Request) bool {
	d.tasks = nil
	for _, t := range r.Group.Tasks {
		if len(t.VolumeMounts) > 0 {
			d.tasks = append(d.tasks, mountingTask{t.Name, t.Driver, t.VolumeMounts[0].Volume})
		}
	}
	return len(d.tasks) > 0
}

// Check implements Filter.
func (d *DriverMounts) Check(n *node.Node) string {
	for _, t := range d.tasks {
		if drv := n.Drivers[t.driver]; drv != nil && drv.NoMounts {
			return "task driver " + t.driver + " does not support mounts"
		}
	}
	return ""
}

// Explain implements Filter.
func (d *DriverMounts) Explain(n *node.Node) (string, string) {
	for _, t := range d.tasks {
		if drv := n.Drivers[t.driver]; drv != nil && drv.NoMounts {
			return fmt.Sprintf("task %q mounts volume %q, but driver %q mounts nothing on this node", t.name, t.volume,
					t.driver),
				"use a driver that mounts, for example exec"
		}
	}
	return "", ""
}

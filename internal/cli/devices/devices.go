// Package devices owns how the command line shows devices: those of a node, those that a task was given, and their
// figures. The commands of nodes and allocations import it.
package devices

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// name is how people read of a device.
func name(vendor, kind, model, id string) string {
	return vendor + "/" + kind + "/" + model + "[" + id + "]"
}

// OfNode lists the devices of a node, and what those of each kind have.
func OfNode(out *kit.Printer, n *api.Node) {
	if n.NodeResources == nil || len(n.NodeResources.Devices) == 0 {
		return
	}
	var rows, attributes [][]string
	for _, d := range n.NodeResources.Devices {
		if d == nil {
			continue
		}
		for _, i := range d.Instances {
			if i != nil {
				bus := ""
				if i.Locality != nil {
					bus = i.Locality.PciBusID
				}
				rows = append(rows, []string{name(d.Vendor, d.Type, d.Name, i.ID), kit.Yes(i.Healthy),
					i.HealthDescription, bus})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
			attributes = append(attributes,
				[]string{d.Vendor + "/" + d.Type + "/" + d.Name, key, attribute(d.Attributes[key])})
		}
	}
	out.Section("Devices")
	out.Table([]string{"Device", "Healthy", "Description", "PCI Bus ID"}, rows)
	if len(attributes) > 0 {
		out.Section("Device Attributes")
		out.Table([]string{"Device", "Attribute", "Value"}, attributes)
	}
}

// Unhealthy names the devices of a node that are given to nobody, with the reason.
func Unhealthy(n *api.Node) (out []string) {
	if n.NodeResources == nil {
		return nil
	}
	for _, d := range n.NodeResources.Devices {
		for _, i := range d.Instances {
			if i != nil && !i.Healthy {
				out = append(out, name(d.Vendor, d.Type, d.Name, i.ID)+": "+i.HealthDescription)
			}
		}
	}
	return out
}

// Utilization shows the figure of each device that says most of it.
func Utilization(out *kit.Printer, stats *api.HostStats) {
	var rows [][]string
	each(stats, func(device string, s *api.DeviceStats) {
		if s.Summary != nil {
			rows = append(rows, []string{device, value(s.Summary)})
		}
	})
	if len(rows) > 0 {
		out.Section("Device Resource Utilization")
		out.Table([]string{"Device", "Usage"}, rows)
	}
}

// Stats shows all figures of each device.
func Stats(out *kit.Printer, stats *api.HostStats) {
	var rows [][]string
	each(stats, func(device string, s *api.DeviceStats) {
		for _, f := range figures("", s.Stats) {
			rows = append(rows, append([]string{device}, f...))
		}
	})
	if len(rows) > 0 {
		out.Section("Device Stats")
		out.Table([]string{"Device", "Figure", "Value"}, rows)
	}
}

func each(stats *api.HostStats, f func(device string, s *api.DeviceStats)) {
	if stats == nil {
		return
	}
	for _, g := range stats.DeviceStats {
		if g == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			if s := g.InstanceStats[id]; s != nil {
				f(name(g.Vendor, g.Type, g.Name, id), s)
			}
		}
	}
}

// figures lists those of an object and of the objects in it, by their paths.
func figures(at string, o *api.StatObject) (out [][]string) {
	if o == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(o.Attributes)) {
		if v := o.Attributes[key]; v != nil {
			out = append(out, []string{at + key, value(v)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Nested)) {
		out = append(out, figures(at+key+".", o.Nested[key])...)
	}
	return out
}

// OfTask shows which devices a task has.
func OfTask(out *kit.Printer, r *api.AllocatedTaskResources) {
	var rows [][]string
	for _, d := range r.Devices {
		if d == nil {
			continue
		}
		for _, id := range d.DeviceIDs {
			rows = append(rows, []string{name(d.Vendor, d.Type, d.Name, id)})
		}
	}
	if len(rows) > 0 {
		out.Printf("\n%s\n", out.Bold("Task Devices:"))
		out.Table([]string{"Device"}, rows)
	}
}

func attribute(a *api.Attribute) string {
	if a == nil {
		return ""
	}
	return value(&api.StatValue{
		FloatNumeratorVal: a.FloatVal,
		IntNumeratorVal:   a.IntVal,
		StringVal:         a.StringVal,
		BoolVal:           a.BoolVal,
		Unit:              a.Unit,
	})
}

// value is a figure as people read it: "12 / 4096 MiB".
func value(v *api.StatValue) string {
	text := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	var out string
	switch {
	case v.BoolVal != nil:
		return strconv.FormatBool(*v.BoolVal)
	case v.StringVal != nil:
		return *v.StringVal
	case v.FloatNumeratorVal != nil:
		out = text(*v.FloatNumeratorVal)
		if v.FloatDenominatorVal != nil {
			out += " / " + text(*v.FloatDenominatorVal)
		}
	case v.IntNumeratorVal != nil:
		out = strconv.FormatInt(*v.IntNumeratorVal, 10)
		if v.IntDenominatorVal != nil {
			out += " / " + strconv.FormatInt(*v.IntDenominatorVal, 10)
		}
	}
	return strings.TrimSpace(out + " " + v.Unit)
}

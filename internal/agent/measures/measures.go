// Package measures owns the numbers that an agent shows of its node beside those of its servers: of the disk that has
// its data, and of the volumes in use. Only package agent imports it.
package measures

import (
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/client/csimanager/meter"
	"berth/internal/client/remote"
	"berth/internal/client/servicesync"
	"berth/internal/httpapi/gauges"
)

// Disk are the numbers of the file system that has the agent's data, under its own names and the known ones. One
// that cannot be asked has none.
func Disk(node, dir string) []gauges.Gauge {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil
	}
	var out []gauges.Gauge
	for what, blocks := range map[string]uint64{
		"size":      fs.Blocks,
		"used":      fs.Blocks - fs.Bfree,
		"available": fs.Bavail,
	} {
		value := float64(blocks) * float64(fs.Bsize)
		out = append(out,
			gauges.Gauge{
				Name:   "berth.client.data_dir." + what + "_bytes",
				Value:  value,
				Labels: map[string]string{"node_id": node},
			},
			gauges.Gauge{
				Name:   "nomad.client.host.disk." + what,
				Value:  value,
				Labels: map[string]string{"node_id": node, "disk": dir},
			})
	}
	return out
}

// Services are the numbers of services that a node is to have registered in Consul; nil: it has no agent of it.
func Services(node string, c *servicesync.Count) []gauges.Gauge {
	if c == nil {
		return nil
	}
	labels := map[string]string{"node_id": node}
	return []gauges.Gauge{
		{Name: "berth.client.consul.services", Value: float64(c.All), Labels: labels},
		{Name: "berth.client.consul.unregistered", Value: float64(c.Unregistered), Labels: labels},
	}
}

// Volumes are the numbers of the volumes in use on a node. What a plugin does not tell has none.
func Volumes(node string, readings []meter.Reading, now time.Time) []gauges.Gauge {
	var out []gauges.Gauge
	for _, r := range readings {
		if r.At.IsZero() {
			continue
		}
		add := func(name string, value float64) {
			out = append(out, gauges.Gauge{Name: "berth.client.volume." + name, Value: value, Labels: map[string]string{
				"namespace": string(r.Volume.Volume.Namespace),
				"volume":    string(r.Volume.Volume.ID),
				"plugin":    string(r.Volume.Key.Plugin),
				"node_id":   node,
			}})
		}
		add("age_seconds", max(0, now.Sub(r.At).Seconds()))
		if b := r.Bytes; b != nil {
			add("total_bytes", float64(b.Total))
			if b.Used != 0 || b.Available != 0 { // a plugin may know of raw blocks how many there are alone
				add("used_bytes", float64(b.Used))
				add("available_bytes", float64(b.Available))
			}
		}
		if i := r.Inodes; i != nil {
			add("total_inodes", float64(i.Total))
			add("used_inodes", float64(i.Used))
			add("available_inodes", float64(i.Available))
		}
		if c := r.Condition; c != nil {
			abnormal := 0.0
			if c.Abnormal {
				abnormal = 1
			}
			add("abnormal", abnormal)
		}
	}
	return out
}

// Tasks are the numbers of the tasks that run on a node, under the agent's own names and the known ones.
func Tasks(node string, all []remote.TaskUse) []gauges.Gauge {
	var out []gauges.Gauge
	for _, t := range all {
		labels := map[string]string{
			"namespace":  string(t.Alloc.Namespace),
			"job":        string(t.Alloc.Job),
			"task_group": t.Alloc.TaskGroup,
			"alloc_id":   string(t.Alloc.ID),
			"task":       t.Task,
			"node_id":    node,
		}
		for name, value := range map[string]float64{
			"berth.client.task.memory_bytes":         float64(t.MemoryUsage),
			"berth.client.task.memory_rss_bytes":     float64(t.MemoryRSS),
			"berth.client.task.memory_max_bytes":     float64(t.MemoryMax),
			"berth.client.task.cpu_seconds":          float64(t.CPUNanos) / 1e9,
			"berth.client.task.throttled_seconds":    float64(t.ThrottledNanos) / 1e9,
			"berth.client.task.processes":            float64(t.PIDs),
			"nomad.client.allocs.memory.usage":       float64(t.MemoryUsage),
			"nomad.client.allocs.memory.rss":         float64(t.MemoryRSS),
			"nomad.client.allocs.memory.cache":       float64(t.MemoryCache),
			"nomad.client.allocs.memory.max_usage":   float64(t.MemoryMax),
			"nomad.client.allocs.cpu.throttled_time": float64(t.ThrottledNanos),
		} {
			out = append(out, gauges.Gauge{Name: name, Value: value, Labels: labels})
		}
	}
	return out
}

package agent

import (
	"time"

	"berth/internal/client/csimanager/meter"
	"berth/internal/httpapi/gauges"
)

// Gauges implements httpapi.Self.
func (a *Agent) Gauges() []gauges.Gauge {
	return volumeGauges(string(a.client.ID()), a.client.VolumeUsage(), time.Now())
}

// volumeGauges are the numbers of the volumes in use on a node. What a plugin does not tell has none.
func volumeGauges(node string, readings []meter.Reading, now time.Time) []gauges.Gauge {
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

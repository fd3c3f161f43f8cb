package oracle

import (
	"encoding/json"
	"maps"
	"slices"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// deletion judges invariant I8: a volume is deleted only when nothing holds it; and invariant I23: nor is a snapshot
// while a volume is being made from it.
type deletion struct {
	restores  map[vol]map[string]bool // by snapshot: names of volumes whose creation has not ended well
	snapshots map[vol]map[string]bool // by source volume: names of snapshots that are not known to be ready
	clones    map[vol]map[string]bool // by source volume: names of volumes whose creation has not ended well
}

func newDeletion() *deletion {
	return &deletion{
		restores:  map[vol]map[string]bool{},
		snapshots: map[vol]map[string]bool{},
		clones:    map[vol]map[string]bool{},
	}
}

func (d *deletion) begin(w *world, c *call) {
	switch c.rpc {
	case csi.CreateSnapshot:
		add(d.snapshots, c.vol(), c.Object)
	case csi.CreateVolume:
		if c.Source != "" {
			add(d.clones, vol{c.Plugin, c.Source}, c.Volume)
		}
		if c.Object != "" {
			add(d.restores, vol{c.Plugin, c.Object}, c.Volume)
		}
	case csi.DeleteSnapshot:
		for _, name := range slices.Sorted(maps.Keys(d.restores[vol{c.Plugin, c.Object}])) {
			w.violate("I23", c.Entry, "the snapshot is deleted while the volume %q is being made from it", name)
		}
	case csi.DeleteVolume:
		d.judge(w, c)
	}
}

func add(m map[vol]map[string]bool, v vol, name string) {
	if m[v] == nil {
		m[v] = map[string]bool{}
	}
	m[v][name] = true
}

func (d *deletion) judge(w *world, c *call) {
	v := c.vol()
	for p, is := range w.attached {
		if p.vol == v && is != absent {
			w.violate("I8", c.Entry, "deleted while its attachment to %q is %s", p.node, is)
		}
	}
	for p, is := range w.staged {
		if p.vol == v && is != absent && !w.fenced[p] {
			w.violate("I8", c.Entry, "deleted while its staging on %q is %s", p.node, is)
		}
	}
	for s, is := range w.published {
		if s.vol == v && is != absent && !w.fenced[s.place] {
			w.violate("I8", c.Entry, "deleted while its publication at %s on %q is %s", s.target, s.node, is)
		}
	}
	if c.Seen != nil {
		for _, what := range c.Seen.Holders {
			w.violate("I8", c.Entry, "deleted under the %s", what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.snapshots[v])) {
		w.violate("I8", c.Entry, "deleted while the snapshot %q of it is being made", name)
	}
	for _, name := range slices.Sorted(maps.Keys(d.clones[v])) {
		w.violate("I8", c.Entry, "deleted while the clone %q of it is being made", name)
	}
}

func (d *deletion) end(w *world, c *call) {
	switch c.rpc {
	case csi.CreateSnapshot:
		if c.ok() && readyToUse(c) || !c.ok() && finality(c) == csi.Final {
			delete(d.snapshots[c.vol()], c.Object)
		}
	case csi.CreateVolume:
		if c.ok() || finality(c) == csi.Final {
			for _, sources := range []map[vol]map[string]bool{d.clones, d.restores} {
				for _, names := range sources {
					delete(names, c.Volume)
				}
			}
		}
	}
}

func readyToUse(c *call) bool {
	var answer struct {
		Snapshot struct {
			Ready bool `json:"ready_to_use"`
		} `json:"snapshot"`
	}
	return json.Unmarshal(c.Answer, &answer) == nil && answer.Snapshot.Ready
}

func (*deletion) mark(*world, proxy.Entry) {}

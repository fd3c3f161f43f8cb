package oracle

import (
	"maps"
	"slices"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// leaks judges invariant I10: what the provider has, by its own word and by the calls that made it, is what the
// orchestrator knows.
type leaks struct {
	unclear map[making]proxy.Entry // creations whose effect nobody knows: the call that left them so
	made    map[vol]making         // by plugin and id
}

// making is what a creation makes.
type making struct {
	rpc          csi.RPC
	plugin, name string
}

func newLeaks() *leaks { return &leaks{unclear: map[making]proxy.Entry{}, made: map[vol]making{}} }

func (l *leaks) begin(*world, *call) {}

func (l *leaks) end(_ *world, c *call) {
	k := making{c.rpc, c.Plugin, c.Volume}
	switch c.rpc {
	case csi.CreateVolume, csi.CreateSnapshot:
		if c.rpc == csi.CreateSnapshot {
			k.name = c.Object
		}
		switch {
		case c.ok():
			delete(l.unclear, k)
			l.made[vol{c.Plugin, answeredID(c)}] = k
		case finality(c) == csi.Unknown:
			l.unclear[k] = c.Entry
		}
	case csi.DeleteVolume, csi.DeleteSnapshot:
		id := c.Volume
		if c.rpc == csi.DeleteSnapshot {
			id = c.Object
		}
		if c.ok() {
			delete(l.unclear, l.made[vol{c.Plugin, id}])
			delete(l.made, vol{c.Plugin, id})
		}
	}
}

func (l *leaks) mark(*world, proxy.Entry) {}

func (l *leaks) finish(w *world) {
	if !w.facts.Records.source {
		return
	}
	known := map[string]bool{}
	for _, r := range w.facts.Records.list {
		known[r.ID], known[r.Name] = true, true
	}
	delete(known, "")
	if !w.facts.Provider.source {
		l.byRecord(w, known)
		return
	}
	has := map[string]bool{}
	for _, t := range w.facts.Provider.list {
		has[t.ID] = true
		if !known[t.ID] && !known[t.Name] {
			w.violate("I10", w.last, "the provider has %q (%s), the orchestrator does not know it", t.ID, t.Name)
		}
	}
	for _, r := range w.facts.Records.list {
		if r.ID != "" && !r.Passing && !has[r.ID] {
			w.violate("I10", w.last, "the orchestrator knows %q, the provider does not have it", r.ID)
		}
	}
}

// byRecord takes the provider's answers for what it has.
func (l *leaks) byRecord(w *world, known map[string]bool) {
	byName := func(a, b making) int { return compare(a.name, b.name) }
	for _, k := range slices.SortedFunc(maps.Keys(l.unclear), byName) {
		if !known[k.name] {
			w.violate("I10", l.unclear[k], "nobody knows whether %s of %q has made something, and it is not recorded",
				k.rpc, k.name)
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(l.made), func(a, b vol) int { return compare(a.id, b.id) }) {
		if !known[v.id] && !known[l.made[v].name] {
			w.violate("I10", w.last, "%q was made and never deleted, the orchestrator does not know it", v.id)
		}
	}
}

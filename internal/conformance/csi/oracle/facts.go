package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// within reports whether t lies in a span; a zero end is open.
func within(t, from, to time.Time) bool {
	return !t.Before(from) && (to.IsZero() || t.Before(to))
}

// taskWatch judges invariants I5 and I17: processes and publications.
type taskWatch struct{}

func (*taskWatch) begin(w *world, c *call) {
	if c.rpc != csi.NodeUnpublishVolume || w.lost[c.spot()] {
		return
	}
	for _, p := range w.facts.Processes {
		if p.Target == c.Target && (p.Node == "" || p.Node == c.Node) && within(c.begun, p.From, p.To) {
			w.violate("I5", c.Entry, "unpublished while a process of the alloc lives")
		}
	}
}

// started judges the start of a task.
func (*taskWatch) started(w *world, t TaskStart) {
	at := proxy.Entry{
		Time:   t.At,
		Kind:   proxy.Marked,
		Text:   "task start",
		Node:   t.Node,
		Target: t.Target,
	}
	if !t.Mounted {
		w.violate("I17", at, "a task was started though the mount table does not show its target mounted as recorded")
	}
	for s, is := range w.published {
		if s.target == t.Target && (t.Node == "" || s.node == t.Node) && is == present && !w.lost[s] {
			return
		}
	}
	w.violate("I17", at, "a task was started though its target is not published")
}

func (*taskWatch) end(*world, *call)        {}
func (*taskWatch) mark(*world, proxy.Entry) {}

// quiet judges invariant I20: nothing is changed in a quiet time but what was uncertain or lost.
type quiet struct{}

func (quiet) begin(w *world, c *call) {
	if !c.rpc.Mutating() || unsettled(w, c) {
		return
	}
	for _, q := range w.facts.Quiet {
		if within(c.begun, q.From, q.To) {
			w.violate("I20", c.Entry, "%s was sent in a quiet time", c.RPC)
		}
	}
}

// unsettled reports whether what the call is about was uncertain or lost.
func unsettled(w *world, c *call) bool {
	switch c.rpc {
	case csi.ControllerPublishVolume, csi.ControllerUnpublishVolume:
		return w.attached[c.place()] == uncertain
	case csi.NodeStageVolume, csi.NodeUnstageVolume:
		return w.staged[c.place()] == uncertain
	case csi.NodePublishVolume, csi.NodeUnpublishVolume:
		return w.published[c.spot()] == uncertain || w.lost[c.spot()]
	}
	return false
}

func (quiet) end(*world, *call)        {}
func (quiet) mark(*world, proxy.Entry) {}

// finish judges what can be told only at the end: invariants I9 and I10, and calls that never ended.
func (w *world) finish() {
	for _, o := range w.observers {
		if f, ok := o.(interface{ finish(*world) }); ok {
			f.finish(w)
		}
	}
	f := w.facts.Final
	if f == nil {
		return
	}
	var left []string
	for p, is := range w.attached {
		left = append(left, fmt.Sprintf("%q attached to %q (%s)", p.id, p.node, is))
	}
	for p, is := range w.staged {
		left = append(left, fmt.Sprintf("%q staged on %q (%s)", p.id, p.node, is))
	}
	for s, is := range w.published {
		left = append(left, fmt.Sprintf("%q published at %s on %q (%s)", s.id, s.target, s.node, is))
	}
	slices.Sort(left)
	for _, text := range left {
		w.violate("I9", w.last, "at rest there is still %s", text)
	}
	if len(f.Mounts) > 0 {
		w.violate("I9", w.last, "at rest there are still mounts: %s", strings.Join(f.Mounts, ", "))
	}
	if len(f.Dirs) > 0 {
		w.violate("I9", w.last, "at rest there are still directories: %s", strings.Join(f.Dirs, ", "))
	}
	if f.Claims != 0 {
		w.violate("I9", w.last, "at rest there are still %d claims", f.Claims)
	}
	w.leaks(f)
}

func (w *world) leaks(f *Final) {
	backend, known := map[string]bool{}, map[string]bool{}
	for _, id := range f.Backend {
		backend[id] = true
	}
	for _, id := range f.Known {
		known[id] = true
		if !backend[id] {
			w.violate("I10", w.last, "the orchestrator knows %q, the provider does not have it", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(backend)) {
		if !known[id] {
			w.violate("I10", w.last, "the provider has %q, the orchestrator does not know it", id)
		}
	}
}

package oracle

import (
	"strings"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// order judges the ladder of a volume: invariant I2 on the way up, I3 and I4 on the way down, I14 at its foot, and I25
// where the plugin offers no foot.
type order struct{}

func (order) begin(w *world, c *call) {
	switch c.rpc {
	case csi.ControllerPublishVolume:
		exclusive(w, c)
		oneWriter(w, c)
	case csi.NodeStageVolume:
		needAttached(w, c)
		alone(w, c)
		oneWriter(w, c)
	case csi.NodeExpandVolume:
		needMade(w, c)
	case csi.NodePublishVolume:
		needAttached(w, c)
		alone(w, c)
		oneWriter(w, c)
		oneTarget(w, c)
		if w.has(c, csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME") && w.staged[c.place()] != present {
			w.violate("I2", c.Entry, "published while the staging is %s", w.staged[c.place()])
		}
	case csi.NodeUnstageVolume:
		if left := w.targets(c.place()); len(left) > 0 {
			w.violate("I3", c.Entry, "unstaged under %s", strings.Join(left, ", "))
		}
	case csi.ControllerUnpublishVolume:
		for _, p := range w.attachments(c) {
			detachable(w, c, p)
		}
	}
}

func needAttached(w *world, c *call) {
	if w.attaches[c.Plugin] && w.attached[c.place()] != present {
		w.violate("I2", c.Entry, "%s while the attachment to %q is %s", c.RPC, c.Node, w.attached[c.place()])
	}
}

func detachable(w *world, c *call, p place) {
	if w.fenced[p] {
		return
	}
	if s := w.staged[p]; s != absent {
		w.violate("I4", c.Entry, "detached from %q while the staging there is %s", p.node, s)
	}
	if left := w.targets(p); len(left) > 0 {
		w.violate("I4", c.Entry, "detached from %q under %s", p.node, strings.Join(left, ", "))
	}
}

// needMade demands that what grows on a node is there: staged, or published where the plugin does not stage.
func needMade(w *world, c *call) {
	switch stages := w.has(c, csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME"); {
	case stages && w.staged[c.place()] != present:
		w.violate("I2", c.Entry, "%s while the staging is %s", c.RPC, w.staged[c.place()])
	case !stages && len(w.targets(c.place())) == 0:
		w.violate("I2", c.Entry, "%s while nothing is published", c.RPC)
	}
}

func singleNode(e proxy.Entry) bool { return strings.HasPrefix(e.Mode, "SINGLE_NODE") }

// oneWriter forbids that a single-node volume comes to a node while a process of another one may write to it, whatever
// the calls so far tell, but for a fence.
func oneWriter(w *world, c *call) {
	if !singleNode(c.Entry) || c.Seen == nil {
		return
	}
	for _, x := range c.Seen.Writers {
		if x.Node != c.Node && !w.fenced[place{c.vol(), x.Node}] {
			w.violate("I14", c.Entry, "%s of a single-node volume on %q while %s on %q may write to it", c.RPC, c.Node,
				x.What, x.Node)
		}
	}
}

// exclusive forbids a second node for a single-node volume, but for a fence.
func exclusive(w *world, c *call) {
	if !singleNode(c.Entry) {
		return
	}
	for p, is := range w.attached {
		if p.vol == c.vol() && p.node != c.Node && is != absent && !w.fenced[p] {
			w.violate("I14", c.Entry, "a single-node volume is attached to %q while its attachment to %q is %s", c.Node,
				p.node, is)
		}
	}
}

// alone forbids a second node for a single-node volume of a plugin that does not attach, but for a fence.
func alone(w *world, c *call) {
	if !singleNode(c.Entry) || w.attaches[c.Plugin] {
		return
	}
	for _, p := range w.places() {
		if p.vol != c.vol() || p.node == c.Node || w.fenced[p] {
			continue
		}
		if left := w.targets(p); len(left) > 0 || w.staged[p] != absent {
			w.violate("I25", c.Entry, "%s of a single-node volume on %q while on %q its staging is %s and it has %s",
				c.RPC, c.Node, p.node, w.staged[p], strings.Join(append(left, "no further target"), ", "))
		}
	}
}

// oneTarget forbids a second target of a volume that one may write, unless the plugin knows several writers of a node.
func oneTarget(w *world, c *call) {
	if c.Mode != "SINGLE_NODE_WRITER" || w.has(c, csi.NodeGetCapabilities, "SINGLE_NODE_MULTI_WRITER") {
		return
	}
	for s, is := range w.published {
		if s.place == c.place() && s.target != c.Target && is != absent && !w.lost[s] {
			w.violate("I25", c.Entry, "a second target of a single-node-writer volume on %q, while %s is %s", c.Node,
				s.target, is)
		}
	}
}

func (order) end(*world, *call)        {}
func (order) mark(*world, proxy.Entry) {}

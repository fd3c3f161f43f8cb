package oracle

import (
	"strings"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// taskWatch judges invariants I5 and I17: processes and publications.
type taskWatch struct{}

func (*taskWatch) begin(w *world, c *call) {
	if c.rpc != csi.NodeUnpublishVolume || w.lost[c.spot()] || c.Seen == nil || len(c.Seen.Living) == 0 {
		return
	}
	w.violate("I5", c.Entry, "unpublished while a process of the alloc lives: %s", strings.Join(c.Seen.Living, ", "))
}

// started judges the start of a task.
func (*taskWatch) started(w *world, t TaskStart) {
	at := moment(t.At, "task start", t.Node)
	at.Target = t.Target
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

package oracle

import (
	"maps"
	"slices"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// late is how much later than its caller a proxy may learn that the caller has given a call up.
const late = 500 * time.Millisecond

// concurrency judges invariant I1: at most one controller call in flight per volume, at most one node call per volume
// and node, and no controller call that names a node beside a node call of that volume there. A call whose caller gave
// it up may still be seen as open for a moment.
type concurrency struct {
	pending map[*call][]*call // a call still open, and the ones that began beside it
}

func newConcurrency() *concurrency { return &concurrency{pending: map[*call][]*call{}} }

func clash(a, b *call) bool {
	if a.Volume == "" || a.vol() != b.vol() {
		return false
	}
	switch {
	case a.controller() && b.controller():
		return true
	case a.node() && b.node():
		return a.Node == b.Node
	case a.node():
		a, b = b, a
	}
	// a is of the controller, b of the node.
	return a.Node != "" && a.Node == b.Node && b.node() ||
		a.rpc == csi.ControllerUnpublishVolume && a.Node == "" && b.node()
}

func (k *concurrency) begin(w *world, c *call) {
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		if o := w.open[id]; o != c && !o.excused && clash(o, c) {
			k.pending[o] = append(k.pending[o], c)
		}
	}
}

func (k *concurrency) end(w *world, c *call) {
	for _, o := range k.pending[c] {
		gaveUp := (c.Code == "Canceled" || c.Code == "DeadlineExceeded") && c.Time.Sub(o.begun) < late
		if !gaveUp {
			w.violate("I1", o.first, "%s began while %s (call %s) was in flight for volume %q", o.RPC, c.RPC, c.Call,
				c.Volume)
		}
	}
	delete(k.pending, c)
}

func (k *concurrency) mark(w *world, e proxy.Entry) {
	if e.Mark != proxy.CallerCrashed {
		return
	}
	for _, c := range w.open {
		if e.Caller == "" || e.Caller == c.Proxy {
			c.excused = true
		}
	}
}

// finish reports overlaps with calls that never ended.
func (k *concurrency) finish(w *world) {
	for c, others := range k.pending {
		for _, o := range others {
			w.violate("I1", o.first, "%s began while %s (call %s, never ended) was in flight for volume %q", o.RPC,
				c.RPC, c.Call, c.Volume)
		}
	}
}

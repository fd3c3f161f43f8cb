package oracle

import (
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// quiet judges invariant I20: nothing is changed in a quiet time but what was uncertain or lost.
type quiet struct{}

func (quiet) begin(w *world, c *call) {
	if !c.rpc.Mutating() || unsettled(w, c) {
		return
	}
	for _, q := range w.facts.Quiet.list {
		if q.Restored && c.rpc == csi.ControllerPublishVolume && w.attached[c.place()] == present {
			continue
		}
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

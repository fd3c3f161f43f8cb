package oracle

import (
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// retries judges invariant I11: what can never succeed is not repeated, and other repetitions are spaced
// and grow apart.
type retries struct{ runs map[try]*run }

// try is a call with its arguments.
type try struct {
	rpc                                           csi.RPC
	plugin, volume, node, staging, target, object string
	hash                                          string
}

// run is a row of failures without anything new between them.
type run struct {
	code  string
	ended time.Time
	gaps  []time.Duration
}

const (
	defaultPause = 20 * time.Millisecond
	longPause    = 30 * time.Second // from here on the pause may have reached its ceiling
	growthAfter  = 6
)

func newRetries() *retries { return &retries{runs: map[try]*run{}} }

func tryOf(c *call) try {
	return try{c.rpc, c.Plugin, c.Volume, c.Node, c.Staging, c.Target, c.Object, c.Hash}
}

func forbidden(rpc csi.RPC, code string) bool {
	switch code {
	case "Unimplemented", "InvalidArgument", "AlreadyExists", "OutOfRange":
		return true
	case "FailedPrecondition":
		return rpc == csi.NodeExpandVolume
	}
	return false
}

// judged leaves out what supervision repeats by its nature.
func judged(c *call) bool {
	switch c.rpc {
	case csi.NodeGetCapabilities, csi.ControllerGetCapabilities, csi.GroupControllerGetCapabilities, csi.NodeGetInfo:
		return false
	}
	return c.rpc.Service() != csi.IdentityService && c.rpc.Service() != ""
}

func (r *retries) begin(w *world, c *call) {
	last := r.runs[tryOf(c)]
	if last == nil || !judged(c) {
		return
	}
	if forbidden(c.rpc, last.code) {
		w.violate("I11", c.Entry, "%s repeated with the same arguments after %s", c.RPC, last.code)
		return
	}
	pause := w.facts.MinPause
	if pause == 0 {
		pause = defaultPause
	}
	gap := c.begun.Sub(last.ended)
	if gap < pause {
		w.violate("I11", c.Entry, "%s repeated %s after %s, sooner than %s", c.RPC, gap, last.code, pause)
	}
	last.gaps = append(last.gaps, gap)
	if n := len(last.gaps); n >= growthAfter && gap < longPause && gap < last.gaps[n-growthAfter]*13/10 {
		w.violate("I11", c.Entry, "%s is repeated for the %d. time and the pauses do not grow (%s, before %s)", c.RPC,
			n, gap, last.gaps[n-growthAfter])
	}
}

func (r *retries) end(_ *world, c *call) {
	if c.ok() {
		r.forget(func(t try) bool {
			return t.plugin == c.Plugin && t.volume == c.Volume && t.node == c.Node && t.object == c.Object
		})
		return
	}
	if c.excused {
		return // who repeats it does not know that it was made
	}
	k := tryOf(c)
	if r.runs[k] == nil {
		r.runs[k] = &run{}
	}
	r.runs[k].code, r.runs[k].ended = c.Code, c.Time
}

func (r *retries) forget(which func(try) bool) {
	for k := range r.runs {
		if which(k) {
			delete(r.runs, k)
		}
	}
}

// mark begins anew where something changed: another run of the plugin, another memory of the caller, an event.
func (r *retries) mark(_ *world, e proxy.Entry) {
	switch {
	case e.Kind == proxy.PluginStarts, e.Mark == proxy.CallerCrashed, e.Mark == proxy.Rebooted,
		e.Mark == proxy.MountsLost:
		r.forget(func(t try) bool { return t.plugin == e.Plugin || e.Plugin == "" })
	case e.Mark == proxy.SomethingNew:
		r.forget(func(t try) bool { return e.Volume == "" || t.volume == e.Volume })
	}
}

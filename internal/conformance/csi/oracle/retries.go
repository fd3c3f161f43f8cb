package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// retries judges invariant I11: what can never succeed is not repeated, and other repetitions are spaced, grow apart
// and are spread by jitter. A call that is undone and made again is a repetition, too.
type retries struct {
	runs map[try]*run
	gaps map[string]map[try]time.Duration // by which repetition of what they were
}

// try is a call with its arguments.
type try struct {
	rpc                                           csi.RPC
	plugin, volume, node, staging, target, object string
	hash                                          string
}

// run is a row of failures without anything new between them.
type run struct {
	code   string
	ended  time.Time
	undone bool // something succeeded since: what was refused may be asked again
	doubt  bool // an earlier try may have made what only the same call can name, so that it can be deleted
	gaps   []time.Duration
}

const (
	defaultPause = 20 * time.Millisecond
	longPause    = 30 * time.Second // from here on the pause may have reached its ceiling
	growthAfter  = 6

	steadyAfter = 5                      // pauses in a row, each once or twice the one before: there is no jitter
	steady      = 0.005                  // how near to the multiple they are then
	together    = 5                      // things that all pause equally long show it, too
	longEnough  = 200 * time.Millisecond // below that a machine's own delays hide everything
)

func newRetries() *retries {
	return &retries{runs: map[try]*run{}, gaps: map[string]map[try]time.Duration{}}
}

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
	if !last.undone && !last.doubt && forbidden(c.rpc, last.code) {
		if slices.Contains(undoing, c.rpc) && c.begun.Sub(last.ended) >= insistence {
			return
		}
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
	n := len(last.gaps)
	if n >= growthAfter && gap < longPause && gap < last.gaps[n-growthAfter]*13/10 {
		w.violate("I11", c.Entry, "%s is repeated for the %d. time and the pauses do not grow (%s, before %s)", c.RPC,
			n, gap, last.gaps[n-growthAfter])
	}
	if n == steadyAfter && unspread(last.gaps) {
		w.violate("I11", c.Entry, "%s is repeated without jitter: its pauses are %v", c.RPC, last.gaps)
	}
	r.spread(w, c, n, gap)
}

// unspread reports whether each pause is as long as the one before it, or twice as long, and nothing between.
func unspread(gaps []time.Duration) bool {
	for i, gap := range gaps[1:] {
		ratio := float64(gap) / float64(gaps[i])
		if gaps[i] < longEnough || math.Abs(ratio-2) > 2*steady && math.Abs(ratio-1) > steady {
			return false
		}
	}
	return true
}

// spread demands that things which failed together do not all come back together.
func (r *retries) spread(w *world, c *call, n int, gap time.Duration) {
	key := fmt.Sprint(c.Plugin, " ", c.RPC, " ", n)
	if r.gaps[key] == nil {
		r.gaps[key] = map[try]time.Duration{}
	}
	all := r.gaps[key]
	all[tryOf(c)] = gap
	if len(all) != together {
		return
	}
	least := slices.Min(slices.Collect(maps.Values(all)))
	most := slices.Max(slices.Collect(maps.Values(all)))
	if least >= longEnough && float64(most-least) < steady*float64(least) {
		w.violate("I11", c.Entry, "%d repetitions of %s came without jitter, all after %s to %s", len(all), c.RPC,
			least, most)
	}
}

// ladder are the calls that an undoing call takes back.
var ladder = []csi.RPC{csi.ControllerPublishVolume, csi.NodeStageVolume, csi.NodePublishVolume}

// undoing are the controller's calls that take something back. Given up for good, they would leave it at the provider
// for ever, held by nobody: they are asked again although they were refused, but seldom.
var undoing = []csi.RPC{csi.ControllerUnpublishVolume, csi.DeleteVolume, csi.DeleteSnapshot}

// insistence is the least pause before a refused undo is asked again.
const insistence = 5 * time.Minute

// naming are the calls whose answer alone tells the id of what they made.
var naming = []csi.RPC{csi.CreateVolume, csi.CreateSnapshot}

func (r *retries) end(_ *world, c *call) {
	if c.ok() {
		r.succeeded(c)
		return
	}
	if c.excused {
		return // who repeats it does not know that it was made
	}
	k := tryOf(c)
	if r.runs[k] == nil {
		r.runs[k] = &run{}
	}
	last := r.runs[k]
	last.code, last.ended = c.Code, c.Time
	last.undone = false
	last.doubt = last.doubt || finality(c) == csi.Unknown && slices.Contains(naming, c.rpc)
}

// succeeded ends the failures of a call. Those of another step of the ladder are not over, though it was undone: only
// what was refused permanently may be asked again. A volume that leaves a node makes the one place there that others
// were refused for (CSI spec, ControllerPublishVolume, RESOURCE_EXHAUSTED): that is another question from then on.
func (r *retries) succeeded(c *call) {
	for t, last := range r.runs {
		switch {
		case freesCapacity(c, t, last.code):
			delete(r.runs, t)
		case t.plugin != c.Plugin || t.volume != c.Volume || t.node != c.Node || t.object != c.Object:
		case t.rpc != c.rpc && slices.Contains(ladder, t.rpc):
			last.undone = last.undone || c.rpc.Mutating()
		default:
			delete(r.runs, t)
		}
	}
}

func freesCapacity(c *call, refused try, code string) bool {
	return c.rpc == csi.ControllerUnpublishVolume && refused.rpc == csi.ControllerPublishVolume &&
		code == "ResourceExhausted" && refused.plugin == c.Plugin && refused.node == c.Node
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

package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// presence is what an orchestrator that saw the record's answers must believe.
type presence uint8

const (
	absent presence = iota
	uncertain
	present
)

func (p presence) String() string { return [...]string{"absent", "uncertain", "present"}[p] }

// vol is a volume at a provider; there is one provider per plugin id.
type vol struct{ plugin, id string }

// place is a volume on a node.
type place struct {
	vol
	node string
}

// spot is a publication.
type spot struct {
	place
	target string
}

// pluginRun is one run of a plugin behind one proxy.
type pluginRun struct {
	proxy string
	n     int
}

// world is everything known at a moment of the record.
type world struct {
	facts     Facts
	observers []observer
	ofMoments
	found []Violation
	open  map[string]*call

	attached  map[place]presence
	staged    map[place]presence
	path      map[place]string // staging path while not absent
	published map[spot]presence
	lost      map[spot]bool
	fenced    map[place]bool
	attaches  map[string]bool                  // by plugin: it has PUBLISH_UNPUBLISH_VOLUME; no entry: not known
	caps      map[pluginRun]map[string]capsSet // what was advertised to the caller, by service
	last      proxy.Entry
}

// ofMoments judge facts that have a moment of their own, among the calls.
type ofMoments struct {
	tasks  *taskWatch
	waits  *waits
	hangs  *hangs
	starts starts
}

type capsSet map[string]bool

func newWorld(f Facts) *world {
	w := &world{
		facts:     f,
		open:      map[string]*call{},
		attached:  map[place]presence{},
		staged:    map[place]presence{},
		path:      map[place]string{},
		published: map[spot]presence{},
		lost:      map[spot]bool{},
		fenced:    map[place]bool{},
		attaches:  map[string]bool{},
		caps:      map[pluginRun]map[string]capsSet{},
	}
	w.ofMoments = ofMoments{&taskWatch{}, newWaits(), &hangs{}, starts{newest: map[string]uint64{}}}
	w.observers = []observer{newConcurrency(), order{}, w.tasks, newArguments(), newPaths(), newDeletion(),
		newRetries(), capabilities{}, quiet{}, limits{}, newLeaks(), w.waits, w.hangs}
	return w
}

func (w *world) violate(inv string, e proxy.Entry, format string, args ...any) {
	w.found = append(w.found, Violation{Invariant: inv, Text: fmt.Sprintf(format, args...), Entry: e})
}

func (w *world) step(e proxy.Entry) {
	w.last = e
	switch e.Kind {
	case proxy.CallBegins:
		c := &call{Entry: e, rpc: csi.RPC(e.RPC), begun: e.Time, first: e}
		w.open[e.Call] = c
		for _, o := range w.observers {
			o.begin(w, c)
		}
		w.began(c)
	case proxy.CallEnds:
		if c := w.open[e.Call]; c != nil {
			w.close(c, e)
		}
	case proxy.PluginStarts, proxy.PluginEnds:
		w.endRun(e)
	case proxy.Marked:
		w.marked(e)
	}
}

// close ends a call; what its begin told stays known where the end does not repeat it.
func (w *world) close(c *call, e proxy.Entry) {
	c.Entry = e
	c.Fields, c.Request = c.first.Fields, c.first.Request
	delete(w.open, e.Call)
	w.ended(c)
	for _, o := range w.observers {
		o.end(w, c)
	}
}

// endRun breaks off what a plugin that is gone had under way: a proxy that was killed writes no ends.
func (w *world) endRun(e proxy.Entry) {
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		if c := w.open[id]; c.Proxy == e.Proxy {
			end := c.Entry
			end.Kind = proxy.CallEnds
			end.Time = e.Time
			end.Code = codes.Unavailable.String()
			end.Text = "broken off with the plugin"
			w.close(c, end)
		}
	}
	for _, o := range w.observers {
		o.mark(w, e)
	}
}

func (w *world) marked(e proxy.Entry) {
	switch e.Mark {
	case proxy.Fenced:
		w.fence(e)
	case proxy.MountsLost, proxy.Rebooted:
		for s := range w.published {
			if s.node == e.Node && (e.Plugin == "" || s.plugin == e.Plugin) {
				w.lost[s] = true
				if e.Mark == proxy.Rebooted {
					w.published[s] = uncertain
				}
			}
		}
		for p := range w.staged {
			if p.node == e.Node && e.Mark == proxy.Rebooted && (e.Plugin == "" || p.plugin == e.Plugin) {
				w.staged[p] = uncertain
			}
		}
	}
	for _, o := range w.observers {
		o.mark(w, e)
	}
}

func (c *call) vol() vol     { return vol{c.Plugin, c.Volume} }
func (c *call) place() place { return place{c.vol(), c.Node} }
func (c *call) spot() spot   { return spot{c.place(), c.Target} }

// began makes uncertain what a call is about to make.
func (w *world) began(c *call) {
	switch c.rpc {
	case csi.ControllerPublishVolume:
		c.prior = begin(w.attached, c.place())
	case csi.NodeStageVolume:
		c.prior = begin(w.staged, c.place())
		if c.prior == absent {
			w.path[c.place()] = c.Staging
		}
	case csi.NodePublishVolume:
		c.prior = begin(w.published, c.spot())
	}
}

func begin[K comparable](m map[K]presence, k K) presence {
	prior := m[k]
	if prior == absent {
		m[k] = uncertain
	}
	return prior
}

// finality of a code's name, as the adapter's table has it.
func finality(c *call) csi.Finality {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == c.Code {
			f, _, _ := csi.Explain(c.rpc, code)
			return f
		}
	}
	return csi.Unknown
}

// made settles a call that makes something.
func made[K comparable](m map[K]presence, k K, c *call) {
	switch {
	case c.ok():
		m[k] = present
	case finality(c) == csi.Final && c.prior == absent:
		delete(m, k)
	case finality(c) == csi.Unknown:
		m[k] = uncertain
	}
}

// unmade settles a call that takes something away.
func unmade[K comparable](m map[K]presence, k K, c *call) {
	switch {
	case c.ok():
		delete(m, k)
	case m[k] == present && finality(c) == csi.Unknown:
		m[k] = uncertain
	}
}

func (w *world) ended(c *call) {
	switch c.rpc {
	case csi.ControllerPublishVolume:
		made(w.attached, c.place(), c)
		if c.ok() {
			w.attaches[c.Plugin] = true
			delete(w.fenced, c.place())
		}
	case csi.ControllerUnpublishVolume:
		for _, p := range w.attachments(c) {
			unmade(w.attached, p, c)
		}
	case csi.NodeStageVolume:
		made(w.staged, c.place(), c)
	case csi.NodeUnstageVolume:
		unmade(w.staged, c.place(), c)
	case csi.NodePublishVolume:
		made(w.published, c.spot(), c)
		if c.ok() {
			delete(w.lost, c.spot())
			delete(w.fenced, c.place())
		}
	case csi.NodeUnpublishVolume:
		unmade(w.published, c.spot(), c)
		if c.ok() {
			delete(w.lost, c.spot())
		}
	case csi.ListVolumes:
		w.listed(c)
	case csi.ControllerGetCapabilities, csi.NodeGetCapabilities, csi.GetPluginCapabilities,
		csi.GroupControllerGetCapabilities:
		w.advertised(c)
	}
	if w.staged[c.place()] == absent {
		delete(w.path, c.place())
	}
}

// fence notes the proof that a node cannot write to a volume, or to any when none is named.
func (w *world) fence(e proxy.Entry) {
	if e.Volume != "" {
		w.fenced[place{vol{e.Plugin, e.Volume}, e.Node}] = true
		return
	}
	for _, p := range w.places() {
		if p.node == e.Node && (e.Plugin == "" || e.Plugin == p.plugin) {
			w.fenced[p] = true
		}
	}
}

// places are the volumes on nodes that are not known to be gone from there, each once.
func (w *world) places() []place {
	all := map[place]bool{}
	for p := range w.attached {
		all[p] = true
	}
	for p := range w.staged {
		all[p] = true
	}
	for s := range w.published {
		all[s.place] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		return compare(a.plugin+"\x00"+a.id+"\x00"+a.node, b.plugin+"\x00"+b.id+"\x00"+b.node)
	})
}

// listed ends attachments of unknown end that the provider's list does not have.
func (w *world) listed(c *call) {
	var answer struct {
		Entries []struct {
			Volume struct {
				ID string `json:"volume_id"`
			}
			Status struct {
				Nodes []string `json:"published_node_ids"`
			}
		}
	}
	if !c.ok() || !w.has(c, csi.ControllerGetCapabilities, "LIST_VOLUMES_PUBLISHED_NODES") ||
		json.Unmarshal(c.Answer, &answer) != nil {
		return
	}
	for _, e := range answer.Entries {
		for p, is := range w.attached {
			if p.vol == (vol{c.Plugin, e.Volume.ID}) && is == uncertain && !slices.Contains(e.Status.Nodes, p.node) &&
				!w.underWay(p) {
				delete(w.attached, p)
			}
		}
	}
}

// underWay reports whether a controller call about a volume on a node is in flight.
func (w *world) underWay(p place) bool {
	for _, c := range w.open {
		if c.controller() && c.vol() == p.vol && c.Node == p.node {
			return true
		}
	}
	return false
}

// attachments are the attachments that a ControllerUnpublishVolume ends: one, or all when it names no node.
func (w *world) attachments(c *call) []place {
	if c.Node != "" {
		return []place{c.place()}
	}
	var out []place
	for p := range w.attached {
		if p.vol == c.vol() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b place) int { return compare(a.node, b.node) })
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// targets are the publications of a volume on a node that are not known to be gone.
func (w *world) targets(p place) []string {
	var out []string
	for s, is := range w.published {
		if s.place == p && is != absent {
			out = append(out, fmt.Sprintf("%s (%s)", s.target, is))
		}
	}
	slices.Sort(out)
	return out
}

// advertised keeps what a plugin told its caller.
func (w *world) advertised(c *call) {
	if !c.ok() {
		return
	}
	var answer struct {
		Capabilities []struct {
			RPC       struct{ Type any } `json:"rpc"`
			Service   struct{ Type any } `json:"service"`
			Expansion struct{ Type any } `json:"volume_expansion"`
		}
	}
	if json.Unmarshal(c.Answer, &answer) != nil {
		return
	}
	set := capsSet{}
	for _, one := range answer.Capabilities {
		for _, t := range []any{one.RPC.Type, one.Service.Type, one.Expansion.Type} {
			if t != nil {
				set[fmt.Sprint(t)] = true
			}
		}
	}
	l := pluginRun{c.Proxy, c.Run}
	if w.caps[l] == nil {
		w.caps[l] = map[string]capsSet{}
	}
	w.caps[l][c.RPC] = set
	if c.rpc == csi.ControllerGetCapabilities {
		w.attaches[c.Plugin] = set["PUBLISH_UNPUBLISH_VOLUME"]
	}
}

func (w *world) has(c *call, rpc csi.RPC, name string) bool {
	return w.caps[pluginRun{c.Proxy, c.Run}][string(rpc)][name]
}

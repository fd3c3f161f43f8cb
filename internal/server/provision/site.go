package provision

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/scheduler/devices"
	"berth/internal/scheduler/filter"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// Site finds the node on which a volume that jobs bring is made, if its plugin makes volumes on the node that has them:
// all those jobs may run there. Volumes of different indexes go to different nodes, those of one alloc to the same.
// Usable tells whether a node can be given a call. Both answers are empty where any node will do.
func Site(s *state.Snap, v *volume.Volume, usable func(ids.Node) bool) (site ids.Node, nowhere string) {
	wanted := bringers(s, v)
	if len(wanted) == 0 || !onNodes(s, v.Spec.Plugin) {
		return "", ""
	}
	var may, can []ids.Node
	var refused refusals
	judges := make([]*judge, len(wanted))
	for i := range wanted {
		judges[i] = newJudge(s, &wanted[i])
	}
	for n, healthy := range makers(s, v.Spec.Plugin) {
		if why := refusedBy(judges, n); why != "" {
			refused.add(n, why)
			continue
		}
		may = append(may, n.ID)
		if healthy && usable(n.ID) {
			can = append(can, n.ID)
		}
	}
	switch {
	case len(can) > 0:
		return can[wanted[0].Index%len(can)], ""
	case len(may) > 0: // it is waited for
		return may[wanted[0].Index%len(may)], ""
	case refused.count > 0:
		return "", fmt.Sprintf("plugin %q keeps a volume on the node that makes it, and job %q may run on none of its "+
			"nodes: %s", v.Spec.Plugin, wanted[0].Job.ID, refused.String())
	}
	return "", ""
}

// Nowhere says why a volume can be made on no node on which its job may run, as far as the job itself says where that
// is: what nodes lack may still come. Empty: it can, or no node is known to have the plugin.
func Nowhere(s *state.Snap, w *Wanted) string {
	p := w.Volume.Spec.Plugin
	if !onNodes(s, p) {
		return ""
	}
	j := newJudge(s, w)
	var refused refusals
	for n := range makers(s, p) {
		why := j.forbids(n)
		if why == "" {
			return ""
		}
		refused.add(n, why)
	}
	if refused.count == 0 {
		return ""
	}
	return fmt.Sprintf("plugin %q keeps a volume on the node that makes it, and the job may run on none of its nodes: "+
		"%s", p, refused.String())
}

// bringers are the volumes of jobs, as those say them, that a record stands for.
func bringers(s *state.Snap, v *volume.Volume) []Wanted {
	var out []Wanted
	for j := range s.Jobs(nil, v.Namespace, "") {
		if j.Namespace != v.Namespace || j.Stopped() {
			continue
		}
		for w := range each(j) {
			if w.Volume.ID == v.ID {
				out = append(out, w)
			}
		}
	}
	return out
}

// onNodes tells of a plugin whose volumes live on the nodes that made them.
func onNodes(s *state.Snap, p ids.Plugin) bool {
	rec := s.Plugin(nil, p)
	return rec != nil && rec.Scope == plugin.ScopeNode
}

// makers yields the nodes that have a controller of a plugin, and whether it is healthy.
func makers(s *state.Snap, p ids.Plugin) func(yield func(*node.Node, bool) bool) {
	return func(yield func(*node.Node, bool) bool) {
		for n := range s.Nodes(nil, "") {
			has, healthy := false, false
			for _, i := range instances.On(s, nil, n) {
				if i.Plugin == p && i.Role == plugin.RoleController {
					has, healthy = true, healthy || i.Healthy()
				}
			}
			if has && !yield(n, healthy) {
				return
			}
		}
	}
}

// judge answers whether an alloc that a volume is made for may run on a node.
type judge struct {
	words filter.Chain // what the job says itself
	rest  filter.Chain // what the node has, and whether it takes allocs
	home  *volume.Volume
}

func newJudge(s *state.Snap, w *Wanted) *judge {
	r := &filter.Request{Job: w.Job, Group: w.Group, Index: w.Index}
	j := &judge{
		words: filter.Prepare(r, &filter.Pool{}, &filter.Datacenters{}, filter.NewConstraints(w.Job.Region)),
		rest: filter.Prepare(r, append([]filter.Filter{filter.Ready{}, &devices.Filter{}},
			filter.Static(w.Job.Region)...)...),
	}
	for _, other := range filter.Wants(w.Job.Namespace, w.Group, w.Index) {
		if v := s.Volume(nil, other.ID); other.ID != w.Volume.ID && v != nil && v.Status.HomeNode != "" &&
			v.Status.Presence.Exists() {
			j.home = v
		}
	}
	return j
}

// forbids says what in the job keeps its alloc from a node; empty: nothing does.
func (j *judge) forbids(n *node.Node) string {
	if f, key := j.words.Check(n); key != "" {
		reason, _ := f.Explain(n)
		return reason
	}
	if j.home != nil && j.home.Status.HomeNode != n.ID {
		return fmt.Sprintf("volume %q of the same alloc lives on node %s", j.home.ID.ID,
			ids.Short(j.home.Status.HomeNode))
	}
	return ""
}

// refusedBy says why one of the allocs that need a volume cannot run on a node.
func refusedBy(judges []*judge, n *node.Node) string {
	for _, j := range judges {
		if why := j.forbids(n); why != "" {
			return why
		}
		if f, key := j.rest.Check(n); key != "" {
			reason, _ := f.Explain(n)
			return reason
		}
	}
	return ""
}

// refusals names the first nodes that are out of the question, and why.
type refusals struct {
	count int
	named []string
}

// maxNamed bounds how many nodes are named.
const maxNamed = 3

func (r *refusals) add(n *node.Node, why string) {
	r.count++
	if len(r.named) < maxNamed {
		r.named = append(r.named, fmt.Sprintf("node %s: %s", n.Name, why))
	}
}

func (r *refusals) String() string {
	named := slices.Clone(r.named)
	if more := r.count - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and so on for %d more", more))
	}
	return strings.Join(named, "; ")
}

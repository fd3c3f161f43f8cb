package filter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// TopologyKey is the key that clients of the API know for a node from which a volume cannot be reached.
const TopologyKey = "did not meet topology requirement"

// CSI passes nodes on which every CSI volume of the group can be used: the plugin's node instance is healthy, the
// volume is reachable from there and can be shown to the group's tasks, nobody who uses it excludes one more there, and
// an attach slot is free. What holds on every node (modes, phase, claims where the node does not matter) is answered by
// Refused.
type CSI struct {
	ledger  *Ledger
	group   *job.TaskGroup
	wants   []Want
	missing *missing // of all allocs of the group; nil: nobody has asked
}

// Want is one CSI volume that an alloc needs.
type Want struct {
	Request *job.VolumeRequest
	ID      volume.ID
	volume  *volume.Volume
}

// NewCSI returns the filter over a ledger.
func NewCSI(l *Ledger) *CSI { return &CSI{ledger: l} }

// Prepare implements Filter; with per_alloc volumes it is called for every index.
func (c *CSI) Prepare(r *Request) bool {
	c.group = r.Group
	c.wants = Wants(r.Job.Namespace, r.Group, r.Index)
	for i := range c.wants {
		c.wants[i].volume = c.ledger.state.Volume(c.wants[i].ID)
	}
	return len(c.wants) > 0
}

// Wants lists the CSI volumes of a group's alloc with this index, ordered by alias.
func Wants(ns ids.Namespace, g *job.TaskGroup, index int) []Want {
	var out []Want
	for _, r := range g.CSIVolumes() {
		out = append(out, Want{Request: r, ID: volume.ID{Namespace: ns, ID: r.SourceFor(index)}})
	}
	return out
}

// Refused answers what holds on every node: the first volume that cannot be given to one more alloc, or nil. Of those
// that do not exist it names all.
func (c *CSI) Refused() *Refusal {
	for _, w := range c.wants {
		if w.volume == nil {
			if refused := c.absent(w.Request, w.ID); refused != nil {
				return refused
			}
		}
		if refused := c.ledger.Refused(w.Request, w.ID); refused != nil {
			return refused
		}
	}
	return nil
}

// Making lists the volumes that are being made, if nothing is known against the others.
func (c *CSI) Making() []ids.Volume {
	var out []ids.Volume
	for _, w := range c.wants {
		switch {
		case w.volume != nil && w.volume.Status.Phase == volume.PhaseCreating && w.volume.Status.LastError == "":
			out = append(out, w.ID.ID)
		case c.ledger.Refused(w.Request, w.ID) != nil:
			return nil
		}
	}
	return out
}

// Home returns the node that one of the volumes cannot leave, and that volume; empty: none is bound.
func (c *CSI) Home() (ids.Node, ids.Volume) {
	for _, w := range c.wants {
		if w.volume != nil && w.volume.Status.HomeNode != "" {
			return w.volume.Status.HomeNode, w.ID.ID
		}
	}
	return "", ""
}

func (l *Ledger) instance(n *node.Node, p ids.Plugin) (ready, known *plugin.Instance) {
	for _, i := range l.state.Instances(n) {
		if i.Plugin != p || i.Role != plugin.RoleNode {
			continue
		}
		known = i
		if i.Healthy() {
			return i, i
		}
	}
	return nil, known
}

// Check implements Filter.
func (c *CSI) Check(n *node.Node) string {
	for i := range c.wants {
		if key := c.check(&c.wants[i], n); key != "" {
			return key
		}
	}
	return c.slots(n)
}

func (c *CSI) check(w *Want, n *node.Node) string {
	v := w.volume
	if v == nil {
		return "missing CSI volume(s) " + string(w.ID.ID)
	}
	p := v.Spec.Plugin
	ready, known := c.ledger.instance(n, p)
	switch {
	case known == nil:
		return fmt.Sprintf("CSI plugin %s is missing from client %s", p, n.ID)
	case ready == nil:
		return fmt.Sprintf("CSI plugin %s is unhealthy on client %s", p, n.ID)
	case v.Status.HomeNode != "" && v.Status.HomeNode != n.ID, !reachable(v.Status.Topologies, ready.Topology):
		return TopologyKey
	case c.unshown(w, n) != nil:
		return unshownKey(w, n)
	}
	if refused := c.excluded(w, n); refused != nil {
		return refused.Key
	}
	return ""
}

// excluded answers what the volume's users have against one more on this node; where they have it against every node,
// Refused has said so before.
func (c *CSI) excluded(w *Want, n *node.Node) *Refusal {
	if !volume.AccessMode(w.Request.AccessMode).NodeDecides() {
		return nil
	}
	return c.ledger.Admit(w.Request, w.ID, n.ID).Refused
}

// reachable: a volume without topology is reachable from everywhere, a node without one reaches only such volumes.
func reachable(from []plugin.Topology, at *plugin.Topology) bool {
	if len(from) == 0 {
		return true
	}
	if at == nil {
		return false
	}
	for _, t := range from {
		if t.Within(*at) {
			return true
		}
	}
	return false
}

// slots counts the attach slots that the node has left for the plugins of the wanted volumes.
func (c *CSI) slots(n *node.Node) string {
	for i := range c.wants {
		if s := c.shortage(&c.wants[i], n); s != nil {
			return fullKey(s)
		}
	}
	limited := false
	for _, i := range c.ledger.state.Instances(n) {
		limited = limited || i.MaxVolumes > 0
	}
	if !limited {
		return ""
	}
	vols := make([]volume.ID, 0, len(c.wants))
	for i := range c.wants {
		vols = append(vols, c.wants[i].ID)
	}
	return c.ledger.slotsFor(n, vols)
}

// shortage says why a wanted volume cannot be attached to a node, or nil.
func (c *CSI) shortage(w *Want, n *node.Node) *plugin.Shortage {
	if w.volume == nil {
		return nil
	}
	r := w.Request
	use := volume.Wish(volume.AccessMode(r.AccessMode), volume.AttachmentMode(r.AttachmentMode),
		effectiveOptions(w.volume, r))
	return c.ledger.state.Shortage(n.ID, w.volume.Staging(), use)
}

// fullKey is the key by which metrics count a node that is full, or on which a volume is refused.
func fullKey(s *plugin.Shortage) string {
	if s.ExternalID != "" {
		return fmt.Sprintf("CSI plugin %s refuses the volume on client %s", s.Plugin, s.Node)
	}
	return fmt.Sprintf("CSI plugin %s has no room for another volume on client %s", s.Plugin, s.Node)
}

// Slots answers with the reason why a node has no attach slot left for the volumes of new claims; empty: it has.
func (l *Ledger) Slots(n *node.Node, claims []*volume.Claim) string {
	vols := make([]volume.ID, 0, len(claims))
	for _, c := range claims {
		vols = append(vols, c.Volume)
		if v := l.state.Volume(c.Volume); v != nil {
			use := volume.Wish(c.AccessMode, c.AttachmentMode, c.MountOptions)
			if s := l.state.Shortage(n.ID, v.Staging(), use); s != nil {
				return fullKey(s)
			}
		}
	}
	return l.slotsFor(n, vols)
}

// slotsFor counts: volumes that are on the node already cost no slot.
func (l *Ledger) slotsFor(n *node.Node, vols []volume.ID) string {
	need := map[ids.Plugin]map[volume.StagingKey]bool{}
	for _, id := range vols {
		v := l.state.Volume(id)
		if v == nil {
			continue
		}
		ready, _ := l.instance(n, v.Spec.Plugin)
		if ready == nil {
			return fmt.Sprintf("CSI plugin %s is unhealthy on client %s", v.Spec.Plugin, n.ID)
		}
		if ready.MaxVolumes <= 0 {
			continue
		}
		used := l.holdings(slotKey{n.ID, ready.Plugin})
		if used[v.Staging()] {
			continue
		}
		if need[ready.Plugin] == nil {
			need[ready.Plugin] = map[volume.StagingKey]bool{}
		}
		need[ready.Plugin][v.Staging()] = true
		if int64(len(used)+len(need[ready.Plugin])) > ready.MaxVolumes {
			return fmt.Sprintf("CSI plugin %s has the maximum number of volumes on client %s", ready.Plugin, n.ID)
		}
	}
	return ""
}

// Explain implements Filter.
func (c *CSI) Explain(n *node.Node) (string, string) {
	for i := range c.wants {
		w := &c.wants[i]
		if key := c.check(w, n); key != "" {
			return c.explain(w, n)
		}
	}
	for i := range c.wants {
		if s := c.shortage(&c.wants[i], n); s != nil {
			return s.Explain()
		}
	}
	if key := c.slots(n); key != "" {
		return key, "wait until volumes are released there, or add nodes"
	}
	return "", ""
}

func (c *CSI) explain(w *Want, n *node.Node) (string, string) {
	v := w.volume
	if v == nil {
		return fmt.Sprintf("volume %q does not exist", w.ID.ID), comes(w.Request)
	}
	ready, known := c.ledger.instance(n, v.Spec.Plugin)
	switch {
	case known == nil:
		return fmt.Sprintf("CSI plugin %q, which serves volume %q, does not run on this node", v.Spec.Plugin, w.ID.ID),
			"run the plugin's node part there; berth plugin status " + string(v.Spec.Plugin)
	case ready == nil:
		return fmt.Sprintf("CSI plugin %q is %s on this node%s", v.Spec.Plugin, known.State, because(known.Reason)),
			"berth plugin status " + string(v.Spec.Plugin)
	case v.Status.HomeNode != "" && v.Status.HomeNode != n.ID:
		return fmt.Sprintf("volume %q lives on node %s", w.ID.ID, ids.Short(v.Status.HomeNode)), "let the job run there"
	case !reachable(v.Status.Topologies, ready.Topology):
		return fmt.Sprintf("volume %q is reachable from %s, the node is at %s", w.ID.ID, places(v.Status.Topologies),
				place(ready.Topology)),
			"use a volume that is reachable from this node"
	}
	if t := c.unshown(w, n); t != nil {
		return unshownReason(w, t)
	}
	if refused := c.excluded(w, n); refused != nil {
		return refused.Reason, refused.Hint
	}
	return "", ""
}

func places(list []plugin.Topology) string {
	var out []string
	for i := range list {
		out = append(out, place(&list[i]))
	}
	return strings.Join(out, " or ")
}

func place(t *plugin.Topology) string {
	if t == nil || len(t.Segments) == 0 {
		return "no known place"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
		out = append(out, k+"="+t.Segments[k])
	}
	return strings.Join(out, ",")
}

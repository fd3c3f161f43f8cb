// Package views owns what people see of stored things beyond their records: a volume with all that refers to it, a
// plugin derived from its instances and jobs, where an alloc's volumes stand. Pure reading of a snapshot; package
// endpoint serves it.
package views

import (
	"fmt"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// Reader makes views of one snapshot and lets a watch see what they were made from. Views of one plugin are made once,
// however many volumes refer to it.
type Reader struct {
	snap    *state.Snap
	watch   *state.Watch
	plugins map[ids.Plugin]*wire.PluginView
	lines   map[ids.Plugin]*wire.PluginView // the same in numbers
	tasks   map[ids.Plugin][]pluginTask     // nil until the first plugin is viewed
	pauses  *suspension.Reader
}

// Of returns a reader of a snapshot.
func Of(s *state.Snap, w *state.Watch) *Reader {
	return &Reader{
		snap:    s,
		watch:   w,
		plugins: map[ids.Plugin]*wire.PluginView{},
		lines:   map[ids.Plugin]*wire.PluginView{},
		pauses:  suspension.Of(s, w),
	}
}

// VolumeIndex is the highest index of everything that a view shows, and of the removal of what it may have shown.
func VolumeIndex(s *state.Snap, v *wire.VolumeView) uint64 {
	index := max(s.ReadIndex(state.Volumes, v.Volume.ModifyIndex), s.ReadIndex(state.Claims),
		s.ReadIndex(state.Attachments), s.ReadIndex(state.Inventories), s.ReadIndex(state.Evidences),
		s.ReadIndex(state.Shortages), s.ReadIndex(state.VolumeSnapshots))
	for r := range s.Shortages(nil) {
		if r.ExternalID != "" && r.Plugin == v.Volume.Spec.Plugin && r.ExternalID == v.Volume.Status.ExternalID {
			index = max(index, r.ModifyIndex)
		}
	}
	if r := s.Recovery(nil); r != nil {
		index = max(index, r.ModifyIndex)
	}
	for e := range s.AllEvidence(nil) {
		index = max(index, e.ModifyIndex)
	}
	for i := range s.InventoriesOf(nil, v.Volume.Staging()) {
		index = max(index, i.ModifyIndex)
	}
	for sn := range s.VolumeSnapshotsOf(nil, v.Volume.Staging()) {
		index = max(index, sn.ModifyIndex)
	}
	for _, a := range v.Allocs {
		index = max(index, a.ModifyIndex)
	}
	for _, c := range v.Claims {
		index = max(index, c.ModifyIndex)
	}
	for _, a := range v.Attachments {
		index = max(index, a.ModifyIndex)
	}
	for _, e := range v.Ended {
		index = max(index, e.Index)
	}
	return index
}

// Volume gathers what refers to a volume, and says in words where it stands.
func (r *Reader) Volume(v *volume.Volume) *wire.VolumeView {
	return r.volume(v, r.Plugin(v.Spec.Plugin))
}

// VolumeWithNumbers is what Volume gathers, with the plugin in numbers: lists in which each volume carried all
// instances and allocs of its plugin would be as long as volumes times nodes.
func (r *Reader) VolumeWithNumbers(v *volume.Volume) *wire.VolumeView {
	return r.volume(v, r.PluginLine(v.Spec.Plugin))
}

// VolumeLine is a volume in a list: it costs the same whatever else there is, and no sentence about it is made.
func (r *Reader) VolumeLine(v *volume.Volume) wire.VolumeLine {
	p := r.PluginLine(v.Spec.Plugin)
	line := wire.VolumeView{
		Volume:      v,
		Plugin:      p,
		Claims:      slices.Collect(r.snap.ClaimsOf(r.watch, v.Staging())),
		Schedulable: unschedulable(v, p) == "" && r.pauses.Claims(v) == nil,
	}
	return line.Line()
}

func (r *Reader) volume(v *volume.Volume, p *wire.PluginView) *wire.VolumeView {
	s, w := r.snap, r.watch
	out := &wire.VolumeView{
		Volume:  v,
		OnNodes: map[ids.Node]volume.InventoryEntry{},
		Plugin:  p,
	}
	for c := range s.ClaimsOf(w, v.Staging()) {
		out.Claims = append(out.Claims, r.doubted(c))
		if a := s.Alloc(w, c.Alloc); a != nil {
			out.Allocs = append(out.Allocs, a)
		}
	}
	for a := range s.AttachmentsOf(w, v.Staging()) {
		out.Attachments = append(out.Attachments, a)
	}
	for i := range s.InventoriesOf(w, v.Staging()) {
		out.OnNodes[i.Node] = i.Entry
	}
	out.Ended = slices.Collect(s.ProvenEnds(w, v.UID))
	suspended, free := r.standstill(v)
	out.Unschedulable = unschedulable(v, out.Plugin)
	if !free {
		out.Unschedulable = suspended
	}
	out.Schedulable = out.Unschedulable == ""
	unknown := map[ids.Node]volume.UnknownMount{}
	for _, c := range out.Claims {
		if u, found := holders.UnknownMount(s, w, c.Node, c.Plugin); found {
			unknown[c.Node] = u
		}
	}
	story := volume.Story{
		Volume:        v,
		Claims:        out.Claims,
		Attachments:   out.Attachments,
		OnNodes:       out.OnNodes,
		Unknown:       unknown,
		Suspended:     suspended,
		Unschedulable: out.Unschedulable,
		Ending:        map[ids.Alloc]bool{},
	}
	for r := range s.Shortages(w) {
		if r.Plugin != v.Spec.Plugin || r.ExternalID == "" || r.ExternalID != v.Status.ExternalID {
			continue
		}
		if why := Refusal(s, w, v.Staging(), r.Node); why != "" {
			story.Refused = append(story.Refused, why)
		}
	}
	if v.Status.Suspended {
		story.Resume = suspendedVolume(v).Resume
	}
	for _, a := range out.Allocs {
		story.Ending[a.ID] = a.Terminal()
	}
	out.State = volume.Describe(story)
	for _, c := range out.Claims {
		if text := Orphaned(s, w, c.Node, c.Alloc); text != "" {
			out.State = append(out.State, text)
		}
	}
	for sn := range s.VolumeSnapshotsOf(w, v.Staging()) {
		if text := volume.DescribeSnapshot(sn, v.UID); text != "" {
			out.State = append(out.State, text)
		}
	}
	return out
}

// standstill says what may not be done with a volume because the servers' state may be older than the world, or a node
// has it for somebody whom the state does not know, and what ends that; free tells whether allocs are given it still.
func (r *Reader) standstill(v *volume.Volume) (text string, free bool) {
	if why := r.pauses.Calls(v.Staging()); why != nil {
		return "suspended, nothing is begun with it: " + why.String(), false
	}
	if why := r.pauses.Claims(v); why != nil {
		return "given to nobody: " + why.String(), false
	}
	if why := r.pauses.Destruction(v.Staging()); why != nil {
		return "neither deleted, detached nor forgotten by force: " + why.String(), true
	}
	return "", true
}

// doubted tells at a claim that is being released why its node's word does not end it.
func (r *Reader) doubted(c *volume.Claim) *volume.Claim {
	why := r.snap.Session(r.watch, c.Node).Doubt(c.Epoch.Index)
	if why == "" || c.State != volume.Releasing {
		return c
	}
	n := *c
	n.Reason = why
	return &n
}

func unschedulable(v *volume.Volume, p *wire.PluginView) string {
	switch {
	case p != nil && p.Record.Foreign(v.Status.Provider) != "":
		return p.Record.Foreign(v.Status.Provider)
	case v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding:
		return "no allocation can be given the volume while it is " + string(v.Status.Phase)
	case p == nil || p.NodesHealthy == 0:
		return `no node runs a healthy instance of plugin "` + string(v.Spec.Plugin) + `"`
	case p.ControllerRequired && p.ControllersHealthy == 0:
		return `no controller of plugin "` + string(v.Spec.Plugin) + `" is healthy`
	}
	return ""
}

// Namesakes warns of volumes that nodes hold under a name that this state gave to another: it was emptied or restored,
// and the data that somebody looks for may be there.
func Namesakes(s *state.Snap, id volume.ID) []string {
	var out []string
	for i := range s.InventoryNamed(nil, id) {
		if !i.Entry.Quiet() {
			out = append(out,
				fmt.Sprintf(
					"node %s holds another volume of this name, with the external id %q of plugin %q; if that is the "+
						"one you mean, "+
						"delete this one and adopt that with: berth volume register FILE", ids.Short(
						i.Node), i.Entry.ExternalID, i.Entry.Plugin))
		}
	}
	return out
}

// OnNode reports whether a node claims a volume or reported something of it.
func OnNode(s *state.Snap, w *state.Watch, v *volume.Volume, id ids.Node) bool {
	for c := range s.ClaimsOf(w, v.Staging()) {
		if c.Node == id {
			return true
		}
	}
	for i := range s.InventoriesOf(w, v.Staging()) {
		if i.Node == id {
			return true
		}
	}
	return false
}

package volumes

import (
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// Place finds the node on which a node-scoped plugin must create: its source's node, or one whose topology satisfies
// what was required, preferring what was preferred. Empty: any node will do.
func Place(s *state.Snap, v *volume.Volume) ids.Node {
	rec := s.Plugin(nil, v.Spec.Plugin)
	if rec == nil || rec.Scope != plugin.ScopeNode {
		return ""
	}
	if n := sourceHome(s, v); n != "" {
		return n
	}
	for _, want := range [][]plugin.Topology{v.Spec.TopologyPreferred, v.Spec.TopologyRequired} {
		for n, i := range instances.Of(s, nil, v.Spec.Plugin) {
			if i.Healthy() && i.Topology != nil && within(want, *i.Topology) {
				return n.ID
			}
		}
	}
	return ""
}

func within(wants []plugin.Topology, t plugin.Topology) bool {
	for _, w := range wants {
		if w.Within(t) {
			return true
		}
	}
	return false
}

// sourceHome is the home node of what a volume is filled from.
func sourceHome(s *state.Snap, v *volume.Volume) ids.Node {
	if v.Spec.CloneID != "" {
		if src := holders.Source(s, v); src != nil {
			return src.Status.HomeNode
		}
	}
	if v.Spec.SnapshotID != "" {
		for sn := range s.VolumeSnapshotsByExternalID(nil, v.Spec.Plugin, v.Spec.SnapshotID) {
			return sn.HomeNode
		}
	}
	return ""
}

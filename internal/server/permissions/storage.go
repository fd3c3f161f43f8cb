package permissions

import (
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/server/state"
	"berth/internal/wire"
)

var storage = []entry{
	asks(wire.VolumeCreate, writesVolume),
	asks(wire.VolumeRegister, writesVolume),
	asks(wire.VolumeExpand, func(r *wire.VolumeExpandRequest, _ *state.Snap) []need {
		return in(r.Volume.Namespace, acl.CSIWriteVolume)
	}),
	asks(wire.VolumeDeregister, deletesVolume),
	asks(wire.VolumeDelete, deletesVolume),
	// Who attests that a machine is dead says it of the machine, not of the volume alone.
	asks(wire.VolumeDetach, func(r *wire.VolumeDetachRequest, _ *state.Snap) []need {
		n := in(r.Volume.Namespace, acl.CSIWriteVolume)
		if r.Attest != "" {
			n = append(n, of(acl.Node, acl.Write)...)
		}
		return n
	}),
	asks(wire.VolumeRelease, func(r *wire.VolumeReleaseRequest, _ *state.Snap) []need {
		return append(in(r.Volume.Namespace, acl.CSIWriteVolume), of(acl.Node, acl.Write)...)
	}),
	asks(wire.VolumeGet, readsVolume),
	asks(wire.VolumeUsages, readsVolume),
	asks(wire.VolumeList, func(r *wire.VolumeListRequest, _ *state.Snap) []need {
		return listed(r.Namespace, acl.CSIListVolume)
	}),
	// What the provider has and the cluster has not is of no namespace; the rest is shown to who may see it.
	asks(wire.VolumeExternal, always[wire.ExternalListRequest](of(acl.Plugin, acl.Read))),
	asks(wire.SnapshotList, always[wire.SnapshotListRequest](of(acl.Plugin, acl.Read))),
	asks(wire.SnapshotCreate, func(r *wire.SnapshotCreateRequest, _ *state.Snap) []need {
		return in(r.Volume.Namespace, acl.CSIWriteVolume)
	}),
	// The handler deletes no snapshot but of the namespace that is named.
	asks(wire.SnapshotDelete, func(r *wire.SnapshotDeleteRequest, _ *state.Snap) []need {
		if r.Namespace == "" {
			return everything()
		}
		return in(r.Namespace, acl.CSIWriteVolume)
	}),
	asks(wire.PluginGet, always[wire.Ref[ids.Plugin]](of(acl.Plugin, acl.Read))),
	asks(wire.PluginList, always[wire.Query](of(acl.Plugin, acl.List))),
	asks(wire.PluginRebind, always[wire.PluginRebindRequest](of(acl.Operator, acl.Write))),
}

func readsVolume(r *wire.Ref[ids.Volume], _ *state.Snap) []need {
	return in(r.Namespace, acl.CSIReadVolume)
}

func deletesVolume(r *wire.VolumeDeleteRequest, _ *state.Snap) []need {
	return in(r.Volume.Namespace, acl.CSIWriteVolume)
}

// writesVolume asks for the right to what is made, and to what it is made from: a clone, a snapshot, or the provider's
// volume that another record stands for.
func writesVolume(r *wire.VolumeWriteRequest, s *state.Snap) []need {
	ns := r.Volume.Namespace
	n := in(ns, acl.CSIWriteVolume)
	if r.Spec.CloneID != "" {
		n = append(n, in(ns, acl.CSIReadVolume)...) // the source is of the same namespace
	}
	if id := r.Spec.SnapshotID; id != "" {
		n = append(n, in(ns, acl.CSIReadVolume)...)
		for sn := range s.VolumeSnapshotsByExternalID(nil, r.Spec.Plugin, id) {
			n = append(n, inThat(sn.Namespace, ns, true, acl.CSIReadVolume)...)
		}
	}
	if id := r.ExternalID; id != "" {
		for v := range s.VolumesByExternalID(nil, r.Spec.Plugin, id) {
			n = append(n, inThat(v.ID.Namespace, ns, true, acl.CSIWriteVolume)...)
		}
	}
	return n
}

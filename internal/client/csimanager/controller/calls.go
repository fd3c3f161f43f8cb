package controller

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// dispatch makes the plugin call that was asked for and fills the report's results.
func dispatch(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	switch {
	case w.Kind == wire.CallAttach && w.Attach != nil:
		return attach(ctx, conn, w, r)
	case w.Kind == wire.CallDetach && w.Attach != nil:
		return conn.Client.Detach(ctx,
			csi.DetachRequest{VolumeID: w.Attach.ExternalID, NodeID: w.Attach.StorageNode, Secrets: w.Secrets.Open()})
	case w.Kind == wire.CallCreate && w.Create != nil:
		return create(ctx, conn, w, r)
	case w.Kind == wire.CallDelete && w.Volume != nil:
		return conn.Client.DeleteVolume(ctx,
			csi.DeleteVolumeRequest{
				VolumeID: w.Volume.ExternalID,
				HiddenID: w.Volume.HiddenID,
				Secrets:  w.Secrets.Open(),
			})
	case w.Kind == wire.CallExpand && w.Volume != nil:
		return expand(ctx, conn, w, r)
	case w.Kind == wire.CallRead && w.Volume != nil:
		return read(ctx, conn, w, r)
	case w.Kind == wire.CallSnapshot && w.Snapshot != nil:
		return snapshot(ctx, conn, w, r)
	case w.Kind == wire.CallDeleteSnapshot && w.Snapshot != nil:
		return conn.Client.DeleteSnapshot(ctx,
			csi.DeleteSnapshotRequest{
				SnapshotID: w.Snapshot.SnapshotID,
				HiddenID:   w.Snapshot.HiddenID,
				Secrets:    w.Secrets.Open(),
			})
	}
	return fault.New(fault.Invalid, w.Kind, w.Subject,
		"this agent does not know the call, or it came without arguments")
}

func attach(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	a := w.Attach
	answer, err := conn.Client.Attach(ctx, csi.AttachRequest{
		VolumeID: a.ExternalID,
		NodeID:   a.StorageNode,
		Capability: csi.CapabilityOf(volume.Capability{AccessMode: a.AccessMode, AttachmentMode: a.AttachmentMode},
			a.MountOptions),
		ReadOnly:      a.ReadOnly,
		Secrets:       w.Secrets.Open(),
		VolumeContext: a.VolumeContext,
	})
	r.PublishContext = answer.PublishContext
	return err
}

func create(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	c := w.Create
	req := csi.CreateVolumeRequest{
		Name:       c.Name,
		Parameters: c.Spec.Parameters,
		Secrets:    w.Secrets.Open(),
		Capacity:   csi.CapacityRange{Required: c.Spec.CapacityMin, Limit: c.Spec.CapacityMax},
		Source:     csi.ContentSource{VolumeID: c.SourceVolume, SnapshotID: c.SourceSnapshot},
	}
	for _, capability := range c.Spec.Capabilities {
		req.Capabilities = append(req.Capabilities, csi.CapabilityOf(capability, c.Spec.MountOptions))
	}
	if conn.Facts.TopologyAware() {
		req.Topology = csi.TopologyRequirement{
			Requisite: topologies(c.Spec.TopologyRequired),
			Preferred: topologies(c.Spec.TopologyPreferred),
		}
	}
	v, err := conn.Client.CreateVolume(ctx, req)
	if e, refused := csi.AsError(err); refused && e.HiddenID != "" {
		r.Created = &wire.CreatedVolume{HiddenID: e.HiddenID}
	}
	if err != nil {
		return err
	}
	r.Created = &wire.CreatedVolume{ExternalID: v.ID, Capacity: v.Capacity, Context: v.Context}
	for _, t := range v.Topology {
		r.Created.Topologies = append(r.Created.Topologies, t)
	}
	return nil
}

func expand(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	v := w.Volume
	answer, err := conn.Client.ExpandVolume(ctx, csi.ExpandVolumeRequest{VolumeID: v.ExternalID,
		Capacity: csi.CapacityRange{Required: v.Min, Limit: v.Max},
		Capability: csi.CapabilityOf(volume.Capability{AccessMode: v.AccessMode, AttachmentMode: v.AttachmentMode},
			v.MountOptions),
		Secrets: w.Secrets.Open()})
	r.Capacity, r.NodeExpansion = answer.Capacity, answer.NodeExpansionRequired
	return err
}

func read(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	v, err := conn.Client.GetVolume(ctx, w.Volume.ExternalID)
	if err != nil {
		return err
	}
	r.Read = &volume.Listed{Nodes: v.NodeIDs, NodesKnown: v.NodesKnown}
	if c := v.Condition; c != nil {
		r.Read.Abnormal, r.Read.Message = c.Abnormal, c.Message
	}
	return nil
}

func snapshot(ctx context.Context, conn *instance.Connection, w wire.ControllerCall, r *wire.ControllerResult) error {
	s := w.Snapshot
	snap, err := conn.Client.CreateSnapshot(ctx, csi.CreateSnapshotRequest{Name: s.Name, SourceVolumeID: s.SourceID,
		Parameters: s.Parameters, Secrets: w.Secrets.Open()})
	if e, refused := csi.AsError(err); refused && e.HiddenID != "" {
		r.Snapshot = &wire.CreatedSnapshot{HiddenID: e.HiddenID}
	}
	if err != nil {
		return err
	}
	r.Snapshot = &wire.CreatedSnapshot{
		ExternalID: snap.ID,
		SourceID:   snap.SourceVolumeID,
		Size:       snap.Size,
		CreateTime: snap.CreatedAt.UnixNano(),
		Ready:      snap.Ready,
	}
	return nil
}

func topologies(list []plugin.Topology) []csi.Topology {
	var out []csi.Topology
	for _, t := range list {
		out = append(out, t.Segments)
	}
	return out
}

package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// ListVolumes reads one page of what the provider has.
func (c *Client) ListVolumes(ctx context.Context, r ListVolumesRequest) (VolumePage, error) {
	k := c.begin(ListVolumes, "", "", nil).controller(CapListVolumes).pageSize(r.MaxEntries).text("token", r.Token,
		false, maxMap)
	resp := &pb.ListVolumesResponse{}
	if err := k.send(ctx, &pb.ListVolumesRequest{MaxEntries: r.MaxEntries, StartingToken: r.Token}, resp); err != nil {
		return VolumePage{}, err
	}
	wrong := pageFault(len(resp.GetEntries()), r.MaxEntries)
	out := VolumePage{NextToken: resp.GetNextToken()}
	known := k.inst.Controller.Has(CapListAttachedNodes)
	for _, e := range resp.GetEntries() {
		v, bad := volumeFrom(e.GetVolume(), k.inst.TopologyAware())
		wrong = first(wrong, bad)
		v.ID, v.Context = k.c.sent.Listed(v.ID), k.shown(v.Context)
		one := VolumeEntry{Volume: v, NodesKnown: known}
		if known {
			one.NodeIDs = listPB(e.GetStatus().GetPublishedNodeIds())
		}
		if k.inst.Controller.Has(CapVolumeConditionCtrl) {
			one.Condition = k.condition(e.GetStatus())
		}
		out.Entries = append(out.Entries, one)
	}
	if wrong != "" {
		return VolumePage{}, k.defect(wrong)
	}
	return out, nil
}

// GetVolume reads one volume (alpha), of plugins that tell a condition with it.
func (c *Client) GetVolume(ctx context.Context, id string) (VolumeEntry, error) {
	k := c.begin(ControllerGetVolume, "volume", id, nil).controller(CapGetVolume).controller(CapVolumeConditionCtrl)
	k.id("volume id", id)
	resp := &pb.ControllerGetVolumeResponse{}
	if err := k.send(ctx, &pb.ControllerGetVolumeRequest{VolumeId: id}, resp); err != nil {
		return VolumeEntry{}, err
	}
	v, wrong := volumeFrom(resp.GetVolume(), k.inst.TopologyAware())
	if wrong == "" && v.ID != id {
		wrong = "another volume, " + quote(v.ID)
	}
	if wrong != "" {
		return VolumeEntry{}, k.defect(wrong)
	}
	v.Context = k.shown(v.Context)
	out := VolumeEntry{Volume: v, NodesKnown: k.inst.Controller.Has(CapListAttachedNodes)}
	if out.NodesKnown {
		out.NodeIDs = listPB(resp.GetStatus().GetPublishedNodeIds())
	}
	out.Condition = k.condition(resp.GetStatus())
	return out, nil
}

// ListSnapshots reads one page of snapshots.
func (c *Client) ListSnapshots(ctx context.Context, r ListSnapshotsRequest) (SnapshotPage, error) {
	k := c.begin(ListSnapshots, "", "", r.Secrets).controller(CapListSnapshots).pageSize(r.MaxEntries).text("token",
		r.Token, false, maxMap)
	k.text("source volume id", r.SourceVolumeID, false, maxString).text("snapshot id", r.SnapshotID, false,
		maxString).secretMap(r.Secrets)
	req := &pb.ListSnapshotsRequest{
		MaxEntries:     r.MaxEntries,
		StartingToken:  r.Token,
		SourceVolumeId: r.SourceVolumeID,
		SnapshotId:     r.SnapshotID,
		Secrets:        secretsPB(r.Secrets),
	}
	resp := &pb.ListSnapshotsResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return SnapshotPage{}, err
	}
	wrong := pageFault(len(resp.GetEntries()), r.MaxEntries)
	out := SnapshotPage{NextToken: resp.GetNextToken()}
	for _, e := range resp.GetEntries() {
		s, bad := snapshotFrom(e.GetSnapshot())
		wrong = first(wrong, bad)
		s.ID, s.SourceVolumeID = k.c.sent.Listed(s.ID), k.c.sent.Listed(s.SourceVolumeID)
		out.Snapshots = append(out.Snapshots, s)
	}
	if wrong != "" {
		return SnapshotPage{}, k.defect(wrong)
	}
	return out, nil
}

func (k *call) pageSize(n int32) *call {
	if n < 0 {
		return k.invalid("the number of entries is negative")
	}
	return k
}

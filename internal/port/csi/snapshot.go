package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// CreateSnapshot takes a snapshot, or tells how far an earlier equal call has come.
func (c *Client) CreateSnapshot(ctx context.Context, r CreateSnapshotRequest) (Snapshot, error) {
	k := c.begin(CreateSnapshot, "snapshot", r.Name, r.Secrets).controller(CapSnapshot).about("volume", r.SourceVolumeID)
	k.name(r.Name).id("source volume id", r.SourceVolumeID).stringMap("parameters", r.Parameters).secretMap(r.Secrets)
	req := &pb.CreateSnapshotRequest{Name: r.Name, SourceVolumeId: r.SourceVolumeID, Parameters: mapPB(r.Parameters), Secrets: secretsPB(r.Secrets)}
	resp := &pb.CreateSnapshotResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return Snapshot{}, err
	}
	s, wrong := snapshotFrom(resp.GetSnapshot())
	if wrong == "" && s.SourceVolumeID != r.SourceVolumeID {
		wrong = "a snapshot of another volume"
	}
	if wrong != "" {
		return Snapshot{}, k.defect(wrong)
	}
	return s, nil
}

// DeleteSnapshot deletes a snapshot that belongs to no group.
func (c *Client) DeleteSnapshot(ctx context.Context, r DeleteSnapshotRequest) error {
	k := c.begin(DeleteSnapshot, "snapshot", r.SnapshotID, r.Secrets).controller(CapSnapshot)
	k.id("snapshot id", r.SnapshotID).secretMap(r.Secrets)
	if r.GroupID != "" {
		k.invalid("the snapshot belongs to the group snapshot " + quote(r.GroupID) + " and can be deleted only with it")
	}
	return k.send(ctx, &pb.DeleteSnapshotRequest{SnapshotId: r.SnapshotID, Secrets: secretsPB(r.Secrets)}, &pb.DeleteSnapshotResponse{})
}

// CreateGroupSnapshot takes snapshots of several volumes at one moment.
func (c *Client) CreateGroupSnapshot(ctx context.Context, r CreateGroupSnapshotRequest) (GroupSnapshot, error) {
	k := c.begin(CreateVolumeGroupSnapshot, "group snapshot", r.Name, r.Secrets).group()
	k.name(r.Name).ids("source volume id", r.SourceVolumeIDs).stringMap("parameters", r.Parameters).secretMap(r.Secrets)
	req := &pb.CreateVolumeGroupSnapshotRequest{Name: r.Name, SourceVolumeIds: listPB(r.SourceVolumeIDs), Parameters: mapPB(r.Parameters), Secrets: secretsPB(r.Secrets)}
	resp := &pb.CreateVolumeGroupSnapshotResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return GroupSnapshot{}, err
	}
	return k.groupSnapshot(resp.GetGroupSnapshot())
}

// DeleteGroupSnapshot deletes a group snapshot with all its members.
func (c *Client) DeleteGroupSnapshot(ctx context.Context, r GroupSnapshotRequest) error {
	k := c.begin(DeleteVolumeGroupSnapshot, "group snapshot", r.GroupID, r.Secrets).group()
	k.id("group snapshot id", r.GroupID).ids("snapshot id", r.SnapshotIDs).secretMap(r.Secrets)
	req := &pb.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: r.GroupID, SnapshotIds: listPB(r.SnapshotIDs), Secrets: secretsPB(r.Secrets)}
	return k.send(ctx, req, &pb.DeleteVolumeGroupSnapshotResponse{})
}

// GetGroupSnapshot reads the present state of a group snapshot.
func (c *Client) GetGroupSnapshot(ctx context.Context, r GroupSnapshotRequest) (GroupSnapshot, error) {
	k := c.begin(GetVolumeGroupSnapshot, "group snapshot", r.GroupID, r.Secrets).group()
	k.id("group snapshot id", r.GroupID).ids("snapshot id", r.SnapshotIDs).secretMap(r.Secrets)
	req := &pb.GetVolumeGroupSnapshotRequest{GroupSnapshotId: r.GroupID, SnapshotIds: listPB(r.SnapshotIDs), Secrets: secretsPB(r.Secrets)}
	resp := &pb.GetVolumeGroupSnapshotResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return GroupSnapshot{}, err
	}
	g, err := k.groupSnapshot(resp.GetGroupSnapshot())
	if err == nil && g.ID != r.GroupID {
		return GroupSnapshot{}, k.defect("another group snapshot than the one asked for")
	}
	return g, err
}

func (k *call) groupSnapshot(g *pb.VolumeGroupSnapshot) (GroupSnapshot, error) {
	out, wrong := groupFrom(g)
	if wrong != "" {
		return GroupSnapshot{}, k.defect(wrong)
	}
	return out, nil
}

// ids checks a required list of ids.
func (k *call) ids(field string, list []string) *call {
	if len(list) == 0 {
		return k.invalid("no " + field + " is named")
	}
	for _, id := range list {
		k.id(field, id)
	}
	return k
}

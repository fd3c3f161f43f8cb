package csi

import (
	"cmp"
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// CreateSnapshot takes a snapshot, or tells how far an earlier equal call has come.
func (c *Client) CreateSnapshot(ctx context.Context, r CreateSnapshotRequest) (Snapshot, error) {
	k := c.begin(CreateSnapshot, "snapshot", r.Name, r.Secrets).controller(CapSnapshot).about("volume",
		r.SourceVolumeID)
	k.name(r.Name).id("source volume id", r.SourceVolumeID).stringMap("parameters", r.Parameters).secretMap(r.Secrets)
	req := &pb.CreateSnapshotRequest{
		Name:           r.Name,
		SourceVolumeId: r.SourceVolumeID,
		Parameters:     mapPB(r.Parameters),
		Secrets:        secretsPB(r.Secrets),
	}
	resp := &pb.CreateSnapshotResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return Snapshot{}, err
	}
	s, wrong := snapshotFrom(resp.GetSnapshot())
	if wrong == "" && s.SourceVolumeID != r.SourceVolumeID {
		wrong = "a snapshot of another volume"
	}
	wrong = first(wrong, k.seeable(s.ID))
	if wrong != "" {
		return Snapshot{}, k.defectOf(s.ID, wrong)
	}
	return s, nil
}

// DeleteSnapshot deletes a snapshot; what is gone already counts as deleted.
func (c *Client) DeleteSnapshot(ctx context.Context, r DeleteSnapshotRequest) error {
	k := c.begin(DeleteSnapshot, "snapshot", cmp.Or(r.SnapshotID, r.HiddenID), r.Secrets).controller(CapSnapshot)
	r.SnapshotID = k.revealed("snapshot id", r.SnapshotID, r.HiddenID)
	k.id("snapshot id", r.SnapshotID).secretMap(r.Secrets)
	return k.send(ctx, &pb.DeleteSnapshotRequest{SnapshotId: r.SnapshotID, Secrets: secretsPB(r.Secrets)},
		&pb.DeleteSnapshotResponse{})
}

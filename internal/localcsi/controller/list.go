package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// ListVolumes lists the volumes of this node.
func (p *Server) ListVolumes(_ context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	vols, next, err := request.Page(p.Volumes.All(), req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	resp := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range vols {
		resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{
			Volume: p.describe(v), Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: p.publishedNodes(v)},
		})
	}
	return resp, nil
}

// ControllerGetVolume describes one volume.
func (p *Server) ControllerGetVolume(
	_ context.Context, req *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	v, err := p.Volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: p.describe(v), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{
			PublishedNodeIds: p.publishedNodes(v),
		},
	}, nil
}

func (p *Server) publishedNodes(v *store.Volume) []string {
	if v.Attachment == nil {
		return nil
	}
	return []string{p.Node}
}

// ListSnapshots lists the snapshots of this node, all, of one volume, or one.
func (p *Server) ListSnapshots(_ context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	var match []*store.Snapshot
	for _, s := range p.Snapshots.All() {
		if id := req.GetSnapshotId(); id != "" && id != p.SnapshotID(s.Key) {
			continue
		}
		if id := req.GetSourceVolumeId(); id != "" && id != s.VolumeID {
			continue
		}
		match = append(match, s)
	}
	snaps, next, err := request.Page(match, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	resp := &csi.ListSnapshotsResponse{NextToken: next}
	for _, s := range snaps {
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: p.describeSnapshot(s)})
	}
	return resp, nil
}

// GetSnapshot describes one snapshot.
func (p *Server) GetSnapshot(_ context.Context, req *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	s, err := p.Snapshot(req.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: p.describeSnapshot(s)}, nil
}

// GetCapacity answers how much capacity there is for the volumes that the request describes.
func (p *Server) GetCapacity(_ context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if req.GetAccessibleTopology() != nil && !p.Here(req.GetAccessibleTopology()) {
		return &csi.GetCapacityResponse{}, nil
	}
	w, err := request.Capacity(req)
	if err != nil {
		return nil, err
	}
	least := w.Least()
	free, err := p.Available()
	if err != nil {
		return nil, err
	}
	free = free / request.Granularity * request.Granularity
	if free < least {
		free = 0
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: free, MaximumVolumeSize: wrapperspb.Int64(free), MinimumVolumeSize: wrapperspb.Int64(least),
	}, nil
}

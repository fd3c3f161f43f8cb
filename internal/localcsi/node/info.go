// Package node owns the CSI node service of the bundled plugin: staging, publishing, growing and measuring volumes on
// the one node that they live on. Only package localcsi imports it.
package node

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// Server is the node service over one datadir.
type Server struct {
	csi.UnimplementedNodeServer
	*datadir.Directory
}

// NodeGetInfo reports who this node is.
func (p *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: p.Node, MaxVolumesPerNode: p.AttachLimit, AccessibleTopology: p.Topology()},
		nil
}

// NodeGetCapabilities reports which node calls are served.
func (p *Server) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// at finds how a volume is used at a path: staged or published there, or not at all.
func (p *Server) at(v *store.Volume, path string) (s store.Staging, err error) {
	u := p.Usages.Get(v.Key)
	_, published := u.Targets[path]
	if published = published && p.Published(v, path); u.Staging != nil &&
		(published || u.Staging.Path == path && p.StagedAt(v, *u.Staging)) {
		return *u.Staging, nil
	}
	if err := p.Displaced(v); err != nil {
		return s, err
	}
	return s, request.Refuse(codes.NotFound, "volume %s is neither staged nor published at %.256q", p.VolumeID(v.Key),
		path)
}

// NodeGetVolumeStats reports how full a staged or published volume is.
func (p *Server) NodeGetVolumeStats(
	_ context.Context, req *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if req.GetVolumePath() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_path is missing")
	}
	v, err := p.Volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	s, err := p.at(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if s.FS == "" {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: v.Size}}},
			nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(req.GetVolumePath(), &st); err != nil {
		return nil, request.Refuse(codes.Internal, "read the usage of volume %s: %w", req.GetVolumeId(), err)
	}
	block := st.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit:      csi.VolumeUsage_BYTES,
			Total:     int64(st.Blocks) * block,
			Available: int64(st.Bavail) * block,
			Used:      int64(st.Blocks-st.Bfree) * block,
		},
		{
			Unit:      csi.VolumeUsage_INODES,
			Total:     int64(st.Files),
			Available: int64(st.Ffree),
			Used:      int64(st.Files - st.Ffree),
		},
	}}, nil
}

// NodeExpandVolume lets the file system or the device of a volume in use take the volume's new size.
func (p *Server) NodeExpandVolume(
	ctx context.Context, req *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if req.GetVolumePath() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_path is missing")
	}
	if err := request.Range(req.GetCapacityRange().GetRequiredBytes(),
		req.GetCapacityRange().GetLimitBytes()); err != nil {
		return nil, err
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "expansion")
	if err != nil {
		return nil, err
	}
	defer release()
	s, err := p.at(v, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if err := expandable(req, v, s); err != nil {
		return nil, err
	}
	if s.FS == "" {
		err = p.GrowDevices(v)
	} else {
		err = p.growFS(ctx, v, s)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}

// expandable refuses what the volume, as it is in use, cannot be brought to.
func expandable(req *csi.NodeExpandVolumeRequest, v *store.Volume, s store.Staging) error {
	id := req.GetVolumeId()
	required, limit := req.GetCapacityRange().GetRequiredBytes(), req.GetCapacityRange().GetLimitBytes()
	if c := req.GetVolumeCapability(); c != nil {
		a, err := request.Capability(c)
		if err != nil {
			return err
		}
		if a.Block != (s.FS == "") {
			return request.Refuse(codes.InvalidArgument, "volume %s is in use as %s, the capability says otherwise", id,
				useOf(s))
		}
	}
	switch {
	case required > v.Size:
		return request.Refuse(codes.OutOfRange,
			"volume %s has %s, less than required_bytes %d: call ControllerExpandVolume first",
			id, sizes.Human(v.Size), required)
	case limit > 0 && limit < v.Size:
		return request.Refuse(codes.OutOfRange, "volume %s has %s, more than limit_bytes %d: volumes do not shrink",
			id, sizes.Human(v.Size), limit)
	case s.FS != "" && s.ReadOnly:
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is staged read-only: its file system grows when it is staged for writing", id)
	}
	return nil
}

func useOf(s store.Staging) string {
	if s.FS == "" {
		return "a block device"
	}
	return "a file system"
}

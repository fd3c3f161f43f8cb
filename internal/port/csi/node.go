package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Stage prepares a volume at an existing directory.
func (c *Client) Stage(ctx context.Context, r StageRequest) error {
	k := c.begin(NodeStageVolume, "volume", r.VolumeID, r.Secrets).node(CapStage).about("path", r.StagingPath)
	k.id("volume id", r.VolumeID).path("staging path", r.StagingPath).capabilities(r.Capability)
	r.PublishContext = k.handBack("publish context", r.PublishContext)
	r.VolumeContext = k.handBack("volume context", r.VolumeContext)
	k.secretMap(r.Secrets)
	req := &pb.NodeStageVolumeRequest{
		VolumeId:          r.VolumeID,
		PublishContext:    mapPB(r.PublishContext),
		StagingTargetPath: r.StagingPath,
		VolumeCapability:  capabilityPB(r.Capability),
		Secrets:           secretsPB(r.Secrets),
		VolumeContext:     mapPB(r.VolumeContext),
	}
	return k.send(ctx, req, &pb.NodeStageVolumeResponse{})
}

// Unstage undoes a staging.
func (c *Client) Unstage(ctx context.Context, r UnstageRequest) error {
	k := c.begin(NodeUnstageVolume, "volume", r.VolumeID, nil).node(CapStage).about("path", r.StagingPath)
	k.id("volume id", r.VolumeID).path("staging path", r.StagingPath)
	return k.send(ctx, &pb.NodeUnstageVolumeRequest{VolumeId: r.VolumeID, StagingTargetPath: r.StagingPath},
		&pb.NodeUnstageVolumeResponse{})
}

// Publish exposes a volume at a path.
func (c *Client) Publish(ctx context.Context, r PublishRequest) error {
	k := c.begin(NodePublishVolume, "volume", r.VolumeID, r.Secrets).role(RoleNode).about("path", r.TargetPath)
	k.id("volume id", r.VolumeID).staging(r.StagingPath).path("target path", r.TargetPath).capabilities(r.Capability)
	r.PublishContext = k.handBack("publish context", r.PublishContext)
	r.VolumeContext = k.handBack("volume context", r.VolumeContext)
	k.secretMap(r.Secrets)
	req := &pb.NodePublishVolumeRequest{
		VolumeId:          r.VolumeID,
		PublishContext:    mapPB(r.PublishContext),
		StagingTargetPath: r.StagingPath,
		TargetPath:        r.TargetPath,
		VolumeCapability:  capabilityPB(r.Capability),
		Readonly:          r.ReadOnly,
		Secrets:           secretsPB(r.Secrets),
		VolumeContext:     mapPB(r.VolumeContext),
	}
	return k.send(ctx, req, &pb.NodePublishVolumeResponse{})
}

// Unpublish undoes a publication.
func (c *Client) Unpublish(ctx context.Context, r UnpublishRequest) error {
	k := c.begin(NodeUnpublishVolume, "volume", r.VolumeID, nil).role(RoleNode).about("path", r.TargetPath)
	k.id("volume id", r.VolumeID).path("target path", r.TargetPath)
	return k.send(ctx, &pb.NodeUnpublishVolumeRequest{VolumeId: r.VolumeID, TargetPath: r.TargetPath},
		&pb.NodeUnpublishVolumeResponse{})
}

// VolumeStats measures a staged or published volume.
func (c *Client) VolumeStats(ctx context.Context, r StatsRequest) (Stats, error) {
	k := c.begin(NodeGetVolumeStats, "volume", r.VolumeID, nil).node(CapStats).about("path", r.VolumePath)
	k.id("volume id", r.VolumeID).path("volume path", r.VolumePath).staging(r.StagingPath)
	resp := &pb.NodeGetVolumeStatsResponse{}
	if err := k.send(ctx,
		&pb.NodeGetVolumeStatsRequest{
			VolumeId:          r.VolumeID,
			VolumePath:        r.VolumePath,
			StagingTargetPath: r.StagingPath,
		}, resp); err != nil {
		return Stats{}, err
	}
	bytes, inodes, wrong := usageFrom(resp.GetUsage())
	if wrong != "" {
		return Stats{}, k.defect(wrong)
	}
	out := Stats{Bytes: bytes, Inodes: inodes}
	if k.inst.Node.Has(CapVolumeConditionNode) {
		out.Condition = k.condition(resp)
	}
	return out, nil
}

// NodeExpand grows what is on the node.
func (c *Client) NodeExpand(ctx context.Context, r NodeExpandRequest) (int64, error) {
	k := c.begin(NodeExpandVolume, "volume", r.VolumeID, nil).node(CapNodeExpand).about("path", r.VolumePath)
	k.id("volume id", r.VolumeID).path("volume path", r.VolumePath).staging(r.StagingPath).capacity(r.Capacity, false)
	if !r.Capability.IsZero() {
		k.capabilities(r.Capability)
	}
	req := &pb.NodeExpandVolumeRequest{
		VolumeId:          r.VolumeID,
		VolumePath:        r.VolumePath,
		StagingTargetPath: r.StagingPath,
		CapacityRange:     rangePB(r.Capacity),
		VolumeCapability:  optionalCapabilityPB(r.Capability),
	}
	resp := &pb.NodeExpandVolumeResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return 0, err
	}
	if wrong := sizeFault("capacity", resp.GetCapacityBytes()); wrong != "" {
		return 0, k.defect(wrong)
	}
	return resp.GetCapacityBytes(), nil
}

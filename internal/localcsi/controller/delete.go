package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// DeleteVolume removes a volume that nobody uses. Its snapshots and clones are copies and stay.
func (p *Server) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := req.GetVolumeId()
	if id == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	key, kind := request.ParseID(request.VolumePrefix, id, p.Node)
	switch kind {
	case request.Elsewhere:
		return nil, p.NotMine("delete", "volume", id)
	case request.Malformed:
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err := p.There(); err != nil {
		return nil, err
	}
	release, err := p.Locks.Take(key, "delete of volume "+id)
	if err != nil {
		return nil, err
	}
	defer release()
	v, ok := p.Volumes.Get(key)
	if !ok {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if v.Attachment != nil {
		return nil, request.Refuse(codes.FailedPrecondition,
			"volume %s is attached to node %q: call ControllerUnpublishVolume first", id, p.Node)
	}
	if err := p.Unused(v); err != nil {
		return nil, err
	}
	p.Step("delete: begun")
	if err := p.Volumes.Remove(key); err != nil {
		return nil, err
	}
	p.Step("delete: removed")
	return &csi.DeleteVolumeResponse{}, p.Usages.Put(key, store.Usage{})
}

// Capabilities of the controller service. The last ones exist only when attaching is on.
var (
	controllerRPCs = []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	attachRPCs = []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
	}
)

// ControllerGetCapabilities reports which controller calls are served.
func (p *Server) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpcs := controllerRPCs
	if p.Attach {
		rpcs = slices.Concat(controllerRPCs, attachRPCs)
	}
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range rpcs {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// ValidateVolumeCapabilities confirms what the volume can do, or says what it cannot.
func (p *Server) ValidateVolumeCapabilities(
	_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, request.Refuse(codes.InvalidArgument, "volume_capabilities is missing")
	}
	v, err := p.Volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	no := func(format string, args ...any) (*csi.ValidateVolumeCapabilitiesResponse, error) {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: fmt.Sprintf(format, args...)}, nil
	}
	if len(req.GetVolumeContext()) > 0 {
		return no("the volume context is not this volume's: its own is empty")
	}
	for k, val := range req.GetParameters() {
		if k != request.ParamFS || v.Mount && val != v.FS {
			return no("parameter %.64q does not describe this volume", k)
		}
	}
	for i, c := range req.GetVolumeCapabilities() {
		a, err := request.Capability(c)
		if err != nil {
			return nil, err
		}
		if why := a.Unfit(v); why != "" {
			return no("volume capability %d: %s", i+1, why)
		}
		if _, err := a.Options(v.FS); err != nil && !a.Block {
			return no("volume capability %d: %s", i+1, err.Error())
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters: req.GetParameters(),
	}}, nil
}

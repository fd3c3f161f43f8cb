package controller

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// ControllerExpandVolume makes the volume larger; a file system in it grows by NodeExpandVolume or at its next staging.
func (p *Server) ControllerExpandVolume(
	_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if req.GetCapacityRange() == nil {
		return nil, request.Refuse(codes.InvalidArgument, "capacity_range is missing")
	}
	required, limit := req.GetCapacityRange().GetRequiredBytes(), req.GetCapacityRange().GetLimitBytes()
	if err := request.Range(required, limit); err != nil {
		return nil, err
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "expansion")
	if err != nil {
		return nil, err
	}
	defer release()
	block := v.Block && !v.Mount
	if c := req.GetVolumeCapability(); c != nil {
		a, err := request.Capability(c)
		if err != nil {
			return nil, err
		}
		if why := a.Unfit(v); why != "" {
			return nil, request.Refuse(codes.InvalidArgument, "volume %s: %s", req.GetVolumeId(), why)
		}
		block = a.Block
	}
	if limit > 0 && limit < v.Size {
		return nil, request.Refuse(codes.OutOfRange,
			"volume %s has %s already, more than limit_bytes %d: volumes do not shrink", req.GetVolumeId(),
			sizes.Human(v.Size), limit)
	}
	if err := p.WholeVolume(v); err != nil {
		return nil, lost("volume "+req.GetVolumeId(), err)
	}
	if required > v.Size {
		if v, err = p.enlarge(v, required, limit); err != nil {
			return nil, err
		}
	}
	// Repeated even when the size is right: an earlier call may have died before the device learned of it.
	if err := errors.Join(image.Extend(p.Volumes.Image(v.Key), v.Size), p.GrowDevices(v)); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: !block}, nil
}

// enlarge writes the new size first; the image follows, here or at the next start. A size that no image can have is
// taken back.
func (p *Server) enlarge(v *store.Volume, required, limit int64) (*store.Volume, error) {
	size, err := request.ChooseSize(required, limit, required)
	if err != nil {
		return nil, err
	}
	unreserve, err := p.Reserve(size-v.Size, "the expansion", "")
	if err != nil {
		return nil, err
	}
	defer unreserve()
	next := *v
	next.Size, next.GrownFrom = size, v.Size
	if err := p.Volumes.Update(&next); err != nil {
		return nil, err
	}
	p.Step("expand: size recorded")
	err = image.Extend(p.Volumes.Image(v.Key), size)
	if errors.Is(err, unix.EFBIG) {
		err = request.Refuse(codes.OutOfRange,
			"%s is more than a file may have on the file system of the data directory", sizes.Human(size))
	}
	if err != nil {
		return nil, errors.Join(err, p.Volumes.Update(v))
	}
	return &next, nil
}

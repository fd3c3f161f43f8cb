package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/answer"
	"berth/internal/localcsi/depot"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// ControllerPublishVolume notes that the volume is attached to this node, the only one it can be attached to.
func (p *Server) ControllerPublishVolume(_ context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := p.attaching(); err != nil {
		return nil, err
	}
	if req.GetVolumeId() == "" {
		return nil, answer.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if req.GetNodeId() == "" {
		return nil, answer.Refuse(codes.InvalidArgument, "node_id is missing")
	}
	a, err := request.Capability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "attach")
	if err != nil {
		return nil, err
	}
	defer release()
	if req.GetNodeId() != p.Node {
		return nil, answer.Refuse(codes.NotFound, "node %.256q does not exist here: volume %s can only be attached to %q", req.GetNodeId(), req.GetVolumeId(), p.Node)
	}
	if why := a.Unfit(v); why != "" {
		return nil, answer.Refuse(codes.InvalidArgument, "volume %s cannot be attached so: %s", req.GetVolumeId(), why)
	}
	want := store.Attachment{ReadOnly: req.GetReadonly(), Fingerprint: a.Fingerprint()}
	if v.Attachment != nil {
		if *v.Attachment != want {
			return nil, answer.Refuse(codes.AlreadyExists, "volume %s is attached to node %q with another capability or readonly: detach it first", req.GetVolumeId(), p.Node)
		}
		return &csi.ControllerPublishVolumeResponse{PublishContext: p.publishContext()}, nil
	}
	// The count and the note are one step, or two calls could take the last slot.
	releaseSlots, err := p.Locks.Take("attach slots", "attach")
	if err != nil {
		return nil, err
	}
	defer releaseSlots()
	if n := p.attached(); p.AttachLimit > 0 && n >= p.AttachLimit {
		return nil, answer.Refuse(codes.ResourceExhausted, "node %q has %d of %d volumes attached: detach one first", p.Node, n, p.AttachLimit)
	}
	next := *v
	next.Attachment = &want
	if err := p.Volumes.Update(&next); err != nil {
		return nil, err
	}
	p.Step("attach: noted")
	return &csi.ControllerPublishVolumeResponse{PublishContext: p.publishContext()}, nil
}

// ControllerUnpublishVolume ends an attachment that no staging needs any more.
func (p *Server) ControllerUnpublishVolume(_ context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := p.attaching(); err != nil {
		return nil, err
	}
	done := &csi.ControllerUnpublishVolumeResponse{}
	if key, kind := request.ParseID(request.VolumePrefix, req.GetVolumeId(), p.Node); kind == request.Here {
		if _, ok := p.Volumes.Get(key); !ok {
			return done, nil // only a volume that is not attached can have been deleted
		}
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "detach")
	if err != nil {
		return nil, err
	}
	defer release()
	if n := req.GetNodeId(); n != "" && n != p.Node || v.Attachment == nil {
		return done, nil // it never was on another node
	}
	if err := p.Unused(v); err != nil {
		return nil, err
	}
	next := *v
	next.Attachment = nil
	return done, p.Volumes.Update(&next)
}

func (p *Server) attaching() error {
	if p.Attach {
		return nil
	}
	return answer.Refuse(codes.Unimplemented, "attaching is off in this plugin: start it with --attach")
}

func (p *Server) publishContext() map[string]string {
	return map[string]string{depot.TopologyKey: p.Node}
}

func (p *Server) attached() int64 {
	n := int64(0)
	for _, v := range p.Volumes.All() {
		if v.Attachment != nil {
			n++
		}
	}
	return n
}

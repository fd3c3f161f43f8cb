package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// ControllerPublishVolume records that the volume is attached to this node, the only one it can be attached to.
func (p *Server) ControllerPublishVolume(
	_ context.Context, req *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if err := p.attaching(); err != nil {
		return nil, err
	}
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	if req.GetNodeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "node_id is missing")
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
		return nil, request.Refuse(codes.NotFound,
			"node %.256q does not exist here: volume %s can only be attached to %q",
			req.GetNodeId(), req.GetVolumeId(), p.Node)
	}
	if why := a.Unfit(v); why != "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume %s cannot be attached so: %s", req.GetVolumeId(), why)
	}
	if err := p.attach(v, store.Attachment{ReadOnly: req.GetReadonly(), Fingerprint: a.Fingerprint()}); err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{datadir.TopologyKey: p.Node}}, nil
}

// attach records an attachment of a volume whose lock is held, if it is not recorded yet.
func (p *Server) attach(v *store.Volume, want store.Attachment) error {
	if v.Attachment != nil {
		if *v.Attachment == want {
			return nil
		}
		return request.Refuse(codes.AlreadyExists,
			"volume %s is attached to node %q with another capability or readonly: detach it first", p.VolumeID(v.Key),
			p.Node)
	}
	// The count and the record are one step, or two calls could take the last slot.
	release, err := p.Locks.Take("attach slots", "attach")
	if err != nil {
		return err
	}
	defer release()
	if n := p.attached(); p.AttachLimit > 0 && n >= p.AttachLimit {
		return request.Refuse(codes.ResourceExhausted, "node %q has %d of %d volumes attached: detach one first",
			p.Node, n, p.AttachLimit)
	}
	next := *v
	next.Attachment = &want
	if err := p.Volumes.Update(&next); err != nil {
		return err
	}
	p.Step("attach: recorded")
	return nil
}

// ControllerUnpublishVolume ends an attachment that no staging needs any more.
func (p *Server) ControllerUnpublishVolume(
	_ context.Context, req *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
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
	return request.Refuse(codes.Unimplemented, "attaching is off in this plugin: start it with --attach")
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

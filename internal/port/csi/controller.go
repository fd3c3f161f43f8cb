package csi

import (
	"cmp"
	"context"
	"strconv"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

func quote(s string) string { return strconv.Quote(cut(clean(s), maxString)) }

// CreateVolume makes a volume, or finds the one that an earlier equal call has made.
func (c *Client) CreateVolume(ctx context.Context, r CreateVolumeRequest) (Volume, error) {
	k := c.begin(CreateVolume, "volume", r.Name, r.Secrets).controller(CapCreateDelete)
	k.name(r.Name).capacity(r.Capacity, false).stringMap("parameters", r.Parameters)
	if len(r.Capabilities) == 0 {
		k.invalid("no capability is asked")
	}
	k.capabilities(r.Capabilities...).topology(r.Topology).secretMap(r.Secrets)
	k.field(r.Source.SnapshotID != "", "a snapshot as source", k.inst.Controller.Has(CapSnapshot),
		"controller capability "+CapSnapshot.String())
	k.field(r.Source.VolumeID != "", "a volume as source", k.inst.Controller.Has(CapClone),
		"controller capability "+CapClone.String())
	if r.Source.SnapshotID != "" && r.Source.VolumeID != "" {
		k.invalid("both a snapshot and a volume are named as source")
	}
	k.text("source snapshot id", r.Source.SnapshotID, false, maxString).text("source volume id", r.Source.VolumeID,
		false, maxString)
	req := &pb.CreateVolumeRequest{
		Name:                      r.Name,
		CapacityRange:             rangePB(r.Capacity),
		VolumeCapabilities:        capabilitiesPB(r.Capabilities),
		Parameters:                mapPB(r.Parameters),
		Secrets:                   secretsPB(r.Secrets),
		VolumeContentSource:       sourcePB(r.Source),
		AccessibilityRequirements: requirementPB(r.Topology),
	}
	resp := &pb.CreateVolumeResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return Volume{}, err
	}
	v, wrong := volumeFrom(resp.GetVolume(), k.inst.TopologyAware())
	if wrong == "" {
		wrong = first(k.seeable(v.ID), answeredVolume(r, v))
	}
	if wrong != "" {
		return Volume{}, k.defectOf(v.ID, wrong)
	}
	v.Context = k.keep(v.Context)
	return v, nil
}

// answeredVolume holds the answer of a creation against its request.
func answeredVolume(r CreateVolumeRequest, v Volume) string {
	switch {
	case v.Capacity > 0 && v.Capacity < r.Capacity.Required:
		return "a volume of " + strconv.FormatInt(v.Capacity, 10) + " bytes, less than the " +
			strconv.FormatInt(r.Capacity.Required, 10) + " asked"
	case r.Capacity.Limit > 0 && v.Capacity > r.Capacity.Limit:
		return "a volume of " + strconv.FormatInt(v.Capacity, 10) + " bytes, more than the " +
			strconv.FormatInt(r.Capacity.Limit, 10) + " allowed"
	case !r.Source.IsZero() && v.Source != r.Source:
		return "a volume that is not made from the source asked"
	}
	return ""
}

// DeleteVolume deletes a volume; what is gone already counts as deleted.
func (c *Client) DeleteVolume(ctx context.Context, r DeleteVolumeRequest) error {
	k := c.begin(DeleteVolume, "volume", cmp.Or(r.VolumeID, r.HiddenID), r.Secrets).controller(CapCreateDelete)
	r.VolumeID = k.revealed("volume id", r.VolumeID, r.HiddenID)
	k.id("volume id", r.VolumeID).secretMap(r.Secrets)
	return k.send(ctx, &pb.DeleteVolumeRequest{VolumeId: r.VolumeID, Secrets: secretsPB(r.Secrets)},
		&pb.DeleteVolumeResponse{})
}

// ValidateVolume asks whether the volume can be used as described and compares the answer with the question.
func (c *Client) ValidateVolume(ctx context.Context, r ValidateVolumeRequest) (Validation, error) {
	k := c.begin(ValidateVolumeCapabilities, "volume", r.VolumeID, r.Secrets).role(RoleController)
	r.VolumeContext = k.handBack("volume context", r.VolumeContext)
	k.id("volume id", r.VolumeID).stringMap("parameters", r.Parameters)
	k.secretMap(r.Secrets).capabilities(r.Capabilities...)
	if len(r.Capabilities) == 0 {
		k.invalid("no capability is asked")
	}
	req := &pb.ValidateVolumeCapabilitiesRequest{
		VolumeId:           r.VolumeID,
		VolumeContext:      mapPB(r.VolumeContext),
		VolumeCapabilities: capabilitiesPB(r.Capabilities),
		Parameters:         mapPB(r.Parameters),
		Secrets:            secretsPB(r.Secrets),
	}
	resp := &pb.ValidateVolumeCapabilitiesResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return Validation{}, err
	}
	out := Validation{
		Message:    cut(clean(k.scrub(resp.GetMessage())), maxMessage),
		Mismatches: compare(r, resp.GetConfirmed()),
	}
	// An answer without `confirmed` is a refusal only when the plugin gives a reason; some leave the field out for yes.
	out.Confirmed = len(out.Mismatches) == 0 && (resp.GetConfirmed() != nil || out.Message == "")
	return out, nil
}

// Attach makes a volume reachable from a node.
func (c *Client) Attach(ctx context.Context, r AttachRequest) (AttachAnswer, error) {
	k := c.begin(ControllerPublishVolume, "volume", r.VolumeID, r.Secrets).controller(CapAttach).about("node", r.NodeID)
	k.id("volume id", r.VolumeID).text("node id", r.NodeID, true, maxNodeID).capabilities(r.Capability)
	r.VolumeContext = k.handBack("volume context", r.VolumeContext)
	k.secretMap(r.Secrets)
	k.field(r.ReadOnly, "read-only", k.inst.Controller.Has(CapAttachReadOnly),
		"controller capability "+CapAttachReadOnly.String())
	req := &pb.ControllerPublishVolumeRequest{
		VolumeId:         r.VolumeID,
		NodeId:           r.NodeID,
		VolumeCapability: capabilityPB(r.Capability),
		Readonly:         r.ReadOnly,
		Secrets:          secretsPB(r.Secrets),
		VolumeContext:    mapPB(r.VolumeContext),
	}
	resp := &pb.ControllerPublishVolumeResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return AttachAnswer{}, err
	}
	if wrong := mapFault("publish context", resp.GetPublishContext()); wrong != "" {
		return AttachAnswer{}, k.defect(wrong)
	}
	return AttachAnswer{PublishContext: k.keep(mapPB(resp.GetPublishContext()))}, nil
}

// Detach withdraws a volume from a node.
func (c *Client) Detach(ctx context.Context, r DetachRequest) error {
	k := c.begin(ControllerUnpublishVolume, "volume", r.VolumeID, r.Secrets).controller(CapAttach).about("node",
		r.NodeID)
	k.id("volume id", r.VolumeID).text("node id", r.NodeID, false, maxNodeID).secretMap(r.Secrets)
	req := &pb.ControllerUnpublishVolumeRequest{VolumeId: r.VolumeID, NodeId: r.NodeID, Secrets: secretsPB(r.Secrets)}
	return k.send(ctx, req, &pb.ControllerUnpublishVolumeResponse{})
}

// ExpandVolume grows a volume at the provider.
func (c *Client) ExpandVolume(ctx context.Context, r ExpandVolumeRequest) (ExpandAnswer, error) {
	k := c.begin(ControllerExpandVolume, "volume", r.VolumeID, r.Secrets).controller(CapExpand)
	k.id("volume id", r.VolumeID).capacity(r.Capacity, true).secretMap(r.Secrets)
	if !r.Capability.IsZero() {
		k.capabilities(r.Capability)
	}
	req := &pb.ControllerExpandVolumeRequest{
		VolumeId:         r.VolumeID,
		CapacityRange:    rangePB(r.Capacity),
		Secrets:          secretsPB(r.Secrets),
		VolumeCapability: optionalCapabilityPB(r.Capability),
	}
	resp := &pb.ControllerExpandVolumeResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return ExpandAnswer{}, err
	}
	out := ExpandAnswer{Capacity: resp.GetCapacityBytes(), NodeExpansionRequired: resp.GetNodeExpansionRequired()}
	if wrong := sizeFault("capacity", out.Capacity); wrong != "" {
		return ExpandAnswer{}, k.defect(wrong)
	}
	if out.Capacity < r.Capacity.Required {
		return ExpandAnswer{},
			k.defect("a capacity of " + strconv.FormatInt(out.Capacity, 10) + " bytes, less than the " +
				strconv.FormatInt(r.Capacity.Required, 10) + " asked")
	}
	return out, nil
}

package csi

import (
	"maps"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/internal/base/redact"
	"berth/internal/model/volume"
)

// The functions of this file are the only ones that make protobuf parts: unset stays nil, nothing is shared with the
// caller's record, and one record always gives one encoding.

var accessModes = map[volume.AccessMode]pb.VolumeCapability_AccessMode_Mode{
	volume.SingleNodeWriter:      pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	volume.SingleNodeReader:      pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	volume.MultiNodeReader:       pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	volume.MultiNodeSingleWriter: pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	volume.MultiNodeMultiWriter:  pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
}

// capabilityPB builds a use of a volume.
func capabilityPB(c VolumeCapability) *pb.VolumeCapability {
	out := &pb.VolumeCapability{AccessMode: &pb.VolumeCapability_AccessMode{Mode: accessModes[c.AccessMode]}}
	if c.AttachmentMode == volume.BlockDevice {
		out.AccessType = &pb.VolumeCapability_Block{Block: &pb.VolumeCapability_BlockVolume{}}
		return out
	}
	m := &pb.VolumeCapability_MountVolume{
		FsType:           c.FSType,
		MountFlags:       listPB(c.MountFlags),
		VolumeMountGroup: c.MountGroup,
	}
	out.AccessType = &pb.VolumeCapability_Mount{Mount: m}
	return out
}

// optionalCapabilityPB gives nil for the zero capability.
func optionalCapabilityPB(c VolumeCapability) *pb.VolumeCapability {
	if c.IsZero() {
		return nil
	}
	return capabilityPB(c)
}

func capabilitiesPB(list []VolumeCapability) []*pb.VolumeCapability {
	var out []*pb.VolumeCapability
	for _, c := range list {
		out = append(out, capabilityPB(c))
	}
	return out
}

func listPB(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

func mapPB(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

func secretsPB(m redact.Map) map[string]string { return m.Reveal() }

func rangePB(r CapacityRange) *pb.CapacityRange {
	if r.IsZero() {
		return nil
	}
	return &pb.CapacityRange{RequiredBytes: r.Required, LimitBytes: r.Limit}
}

func topologyPB(t Topology) *pb.Topology {
	if len(t) == 0 {
		return nil
	}
	return &pb.Topology{Segments: maps.Clone(t)}
}

func topologiesPB(list []Topology) []*pb.Topology {
	var out []*pb.Topology
	for _, t := range list {
		out = append(out, topologyPB(t))
	}
	return out
}

func requirementPB(r TopologyRequirement) *pb.TopologyRequirement {
	if r.IsZero() {
		return nil
	}
	return &pb.TopologyRequirement{Requisite: topologiesPB(r.Requisite), Preferred: topologiesPB(r.Preferred)}
}

func sourcePB(s ContentSource) *pb.VolumeContentSource {
	switch {
	case s.SnapshotID != "":
		return &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Snapshot{
			Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: s.SnapshotID}}}
	case s.VolumeID != "":
		return &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Volume{
			Volume: &pb.VolumeContentSource_VolumeSource{VolumeId: s.VolumeID}}}
	}
	return nil
}

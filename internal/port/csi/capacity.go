package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// CapacityRequest asks what is left for volumes of these capabilities and parameters (CSI spec, GetCapacity).
type CapacityRequest struct {
	Capabilities []VolumeCapability
	Parameters   map[string]string
	Topology     Topology // only with VOLUME_ACCESSIBILITY_CONSTRAINTS
}

// CapacityAnswer is in bytes. MaximumVolume is 0 where the plugin does not say it.
type CapacityAnswer struct{ Available, MaximumVolume int64 }

// Capacity asks what is left at the provider. It changes nothing.
func (c *Client) Capacity(ctx context.Context, r CapacityRequest) (CapacityAnswer, error) {
	k := c.begin(GetCapacity, "", "", nil).controller(CapGetCapacity)
	if len(r.Capabilities) > 0 {
		k.capabilities(r.Capabilities...)
	}
	k.stringMap("parameters", r.Parameters).topology(TopologyRequirement{Requisite: some(r.Topology)})
	req := &pb.GetCapacityRequest{
		VolumeCapabilities: capabilitiesPB(r.Capabilities),
		Parameters:         mapPB(r.Parameters),
		AccessibleTopology: topologyPB(r.Topology),
	}
	resp := &pb.GetCapacityResponse{}
	if err := k.send(ctx, req, resp); err != nil {
		return CapacityAnswer{}, err
	}
	out := CapacityAnswer{
		Available:     resp.GetAvailableCapacity(),
		MaximumVolume: resp.GetMaximumVolumeSize().GetValue(),
	}
	wrong := first(sizeFault("available capacity", out.Available), sizeFault("maximum volume size", out.MaximumVolume))
	if wrong != "" {
		return CapacityAnswer{}, k.defect(wrong)
	}
	return out, nil
}

func some(t Topology) []Topology {
	if len(t) == 0 {
		return nil
	}
	return []Topology{t}
}

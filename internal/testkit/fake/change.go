package fake

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/port/csi"
)

// ControllerExpandVolume grows; an OFFLINE plugin refuses while the volume is in use.
func (p *Plugin) ControllerExpandVolume(
	_ context.Context, r *pb.ControllerExpandVolumeRequest,
) (*pb.ControllerExpandVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapExpand), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetCapacityRange() != nil, "capacity range")); err != nil {
		return nil, err
	}
	out := &pb.ControllerExpandVolumeResponse{}
	err := p.store.update(func(st *state) error {
		v := st.Volumes[r.GetVolumeId()]
		if v == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", r.GetVolumeId())
		}
		if !p.cfg.Expansion.Has(csi.ExpandOnline) && (len(v.Attached) > 0 || len(v.Published) > 0) {
			return status.Errorf(codes.FailedPrecondition, "volume %q is in use and the plugin expands offline only",
				v.ID)
		}
		want := max(v.Size, r.GetCapacityRange().GetRequiredBytes())
		if l := r.GetCapacityRange().GetLimitBytes(); l > 0 && want > l || st.bytes-v.Size+want > p.cfg.Capacity {
			return status.Errorf(codes.OutOfRange, "the volume cannot be made %d bytes large", want)
		}
		st.bytes += want - v.Size
		v.Size = want
		if out.NodeExpansionRequired = p.cfg.NodeExpand &&
			r.GetVolumeCapability().GetBlock() == nil; !out.NodeExpansionRequired {
			v.FSSize = v.Size
		}
		out.CapacityBytes = v.Size
		return nil
	})
	return out, err
}

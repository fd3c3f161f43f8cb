package fake

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/internal/port/csi"
)

// GetPluginInfo names the plugin.
func (p *Plugin) GetPluginInfo(context.Context, *pb.GetPluginInfoRequest) (*pb.GetPluginInfoResponse, error) {
	return &pb.GetPluginInfoResponse{Name: p.cfg.Name, VendorVersion: "1.0"}, nil
}

// GetPluginCapabilities advertises what the configuration says.
func (p *Plugin) GetPluginCapabilities(
	context.Context, *pb.GetPluginCapabilitiesRequest,
) (*pb.GetPluginCapabilitiesResponse, error) {
	out := &pb.GetPluginCapabilitiesResponse{}
	service := func(c csi.PluginCap) {
		out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_Service_{
			Service: &pb.PluginCapability_Service{Type: pb.PluginCapability_Service_Type(c)}}})
	}
	if !p.cfg.NoControl {
		service(csi.CapController)
	}
	for _, c := range p.cfg.Plugin {
		service(c)
	}
	for _, c := range p.cfg.Expansion {
		out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &pb.PluginCapability_VolumeExpansion{Type: pb.PluginCapability_VolumeExpansion_Type(c)}}})
	}
	return out, nil
}

// Probe is not ready for the first NotReady times of a run.
func (p *Plugin) Probe(context.Context, *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes++
	return &pb.ProbeResponse{Ready: wrapperspb.Bool(p.probes > p.cfg.NotReady)}, nil
}

// NodeGetInfo tells the node and lets the backend know it.
func (p *Plugin) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	err := p.store.update(func(st *state) error {
		st.Nodes[p.cfg.NodeID] = nodeFacts{Topology: p.cfg.Topology, MaxVolumes: p.cfg.MaxVolumes}
		return nil
	})
	return &pb.NodeGetInfoResponse{
		NodeId:             p.cfg.NodeID,
		MaxVolumesPerNode:  p.cfg.MaxVolumes,
		AccessibleTopology: p.topologyOf(),
	}, err
}

// NodeGetCapabilities advertises what the configuration says.
func (p *Plugin) NodeGetCapabilities(
	context.Context, *pb.NodeGetCapabilitiesRequest,
) (*pb.NodeGetCapabilitiesResponse, error) {
	out := &pb.NodeGetCapabilitiesResponse{}
	for _, c := range p.cfg.Node {
		out.Capabilities = append(out.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{
			Rpc: &pb.NodeServiceCapability_RPC{Type: pb.NodeServiceCapability_RPC_Type(c)}}})
	}
	return out, nil
}

func (p *Plugin) nodeOffers(c csi.NodeCap) error {
	if !p.cfg.Node.Has(c) {
		return status.Errorf(codes.Unimplemented, "%s is not offered", c)
	}
	return nil
}

// onVolume runs fn on a volume that must exist.
func (p *Plugin) onVolume(id string, fn func(*volume) error) error {
	return p.store.update(func(st *state) error {
		v := st.Volumes[id]
		if v == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", id)
		}
		return fn(v)
	})
}

// attachedHere is the strict part: a node call before its attachment is an error of the caller.
func (p *Plugin) attachedHere(v *volume) error {
	if _, ok := v.Attached[p.cfg.NodeID]; p.cfg.Controller.Has(csi.CapAttach) && !p.cfg.NoControl && !ok {
		return status.Errorf(codes.FailedPrecondition, "volume %q is not attached to node %q", v.ID, p.cfg.NodeID)
	}
	return nil
}

// NodeStageVolume binds the volume's directory to the staging path, which must be there.
func (p *Plugin) NodeStageVolume(_ context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	if err := firstErr(p.nodeOffers(csi.CapStage), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetStagingTargetPath() != "", "staging path"), checkCapability(r.GetVolumeCapability())); err != nil {
		return nil, err
	}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if err := p.attachedHere(v); err != nil {
			return err
		}
		was, ok := v.Staged[p.cfg.NodeID]
		if ok && was.Path == r.GetStagingTargetPath() && was.Args != args(r) ||
			ok && was.Path != r.GetStagingTargetPath() {
			return status.Errorf(codes.AlreadyExists, "volume %q is staged at %q with other arguments", v.ID, was.Path)
		}
		if fi, err := os.Stat(r.GetStagingTargetPath()); err != nil || !fi.IsDir() {
			return status.Errorf(codes.InvalidArgument, "the staging path %q is not a directory that exists",
				r.GetStagingTargetPath())
		}
		v.Staged[p.cfg.NodeID] = staged{Path: r.GetStagingTargetPath(), Args: args(r)}
		if r.GetVolumeCapability().GetBlock() != nil {
			return nil
		}
		dir, err := p.madeDir(v.ID)
		if err != nil {
			return err
		}
		return p.bind(dir, r.GetStagingTargetPath(), false)
	})
	return &pb.NodeStageVolumeResponse{}, err
}

// NodeUnstageVolume undoes it, and refuses while a publication stands on it.
func (p *Plugin) NodeUnstageVolume(
	_ context.Context, r *pb.NodeUnstageVolumeRequest,
) (*pb.NodeUnstageVolumeResponse, error) {
	if err := firstErr(p.nodeOffers(csi.CapStage), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetStagingTargetPath() != "", "staging path")); err != nil {
		return nil, err
	}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if len(v.Published[p.cfg.NodeID]) > 0 {
			return status.Errorf(codes.Internal, "volume %q is still published on %q", v.ID, p.cfg.NodeID)
		}
		if err := p.unmount(r.GetStagingTargetPath()); err != nil {
			return err
		}
		delete(v.Staged, p.cfg.NodeID)
		return nil
	})
	return &pb.NodeUnstageVolumeResponse{}, err
}

// NodePublishVolume binds the staging (or the volume) to the target, which it makes itself.
func (p *Plugin) NodePublishVolume(
	_ context.Context, r *pb.NodePublishVolumeRequest,
) (*pb.NodePublishVolumeResponse, error) {
	if err := firstErr(need(r.GetVolumeId() != "", "volume id"), need(r.GetTargetPath() != "", "target path"),
		checkCapability(r.GetVolumeCapability())); err != nil {
		return nil, err
	}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if err := p.attachedHere(v); err != nil {
			return err
		}
		if p.cfg.Node.Has(csi.CapStage) {
			if s, ok := v.Staged[p.cfg.NodeID]; !ok || s.Path != r.GetStagingTargetPath() {
				return status.Errorf(codes.FailedPrecondition, "volume %q is not staged at %q", v.ID,
					r.GetStagingTargetPath())
			}
		} else if r.GetStagingTargetPath() != "" {
			return status.Error(codes.InvalidArgument, "a staging path without STAGE_UNSTAGE_VOLUME")
		}
		here := v.Published[p.cfg.NodeID]
		if was, ok := here[r.GetTargetPath()]; ok && was.Args != args(r) {
			return status.Errorf(codes.AlreadyExists, "volume %q is published at %q with other arguments", v.ID,
				r.GetTargetPath())
		} else if !ok && len(here) > 0 && publishedOnce(r.GetVolumeCapability()) {
			return status.Errorf(codes.FailedPrecondition, "volume %q is published on %q already", v.ID, p.cfg.NodeID)
		}
		if here == nil {
			here = map[string]published{}
			v.Published[p.cfg.NodeID] = here
		}
		here[r.GetTargetPath()] = published{Args: args(r), ReadOnly: r.GetReadonly()}
		return p.publish(v, r)
	})
	return &pb.NodePublishVolumeResponse{}, err
}

// publishedOnce reports access modes that allow one target on a node. The specification counts the readers of one node
// among them as a SHOULD; most plugins bind the volume once more, which harms nobody.
func publishedOnce(c *pb.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER:
		return true
	}
	return false
}

func (p *Plugin) publish(v *volume, r *pb.NodePublishVolumeRequest) error {
	if _, err := os.Stat(filepath.Dir(r.GetTargetPath())); err != nil {
		return status.Errorf(codes.InvalidArgument, "the parent of the target %q does not exist", r.GetTargetPath())
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return p.publishBlock(v, r.GetTargetPath())
	}
	if err := os.Mkdir(r.GetTargetPath(), 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return status.Error(codes.Internal, err.Error())
	}
	from, err := p.madeDir(v.ID)
	if err != nil {
		return err
	}
	if r.GetStagingTargetPath() != "" {
		from = r.GetStagingTargetPath()
	}
	return p.bind(from, r.GetTargetPath(), r.GetReadonly())
}

// NodeUnpublishVolume unmounts and deletes the target.
func (p *Plugin) NodeUnpublishVolume(
	_ context.Context, r *pb.NodeUnpublishVolumeRequest,
) (*pb.NodeUnpublishVolumeResponse, error) {
	if err := firstErr(need(r.GetVolumeId() != "", "volume id"),
		need(r.GetTargetPath() != "", "target path")); err != nil {
		return nil, err
	}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if p.cfg.Defects[string(csi.NodeUnpublishVolume)] == DefectForgets {
			delete(v.Published, p.cfg.NodeID)
			return nil
		}
		if err := p.unmount(r.GetTargetPath()); err != nil {
			return err
		}
		if err := p.freeBlock(v); err != nil {
			return err
		}
		if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return status.Error(codes.Internal, err.Error())
		}
		delete(v.Published[p.cfg.NodeID], r.GetTargetPath())
		if len(v.Published[p.cfg.NodeID]) == 0 {
			delete(v.Published, p.cfg.NodeID)
		}
		return nil
	})
	return &pb.NodeUnpublishVolumeResponse{}, err
}

func (v *volume) at(node, path string) bool {
	_, published := v.Published[node][path]
	return published || path != "" && v.Staged[node].Path == path
}

// NodeGetVolumeStats answers from the bookkeeping.
func (p *Plugin) NodeGetVolumeStats(
	_ context.Context, r *pb.NodeGetVolumeStatsRequest,
) (*pb.NodeGetVolumeStatsResponse, error) {
	if err := firstErr(p.nodeOffers(csi.CapStats), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetVolumePath() != "", "volume path")); err != nil {
		return nil, err
	}
	out := &pb.NodeGetVolumeStatsResponse{}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if !v.at(p.cfg.NodeID, r.GetVolumePath()) {
			return status.Errorf(codes.NotFound, "volume %q is not at %q", v.ID, r.GetVolumePath())
		}
		out.Usage = []*pb.VolumeUsage{{
			Unit:      pb.VolumeUsage_BYTES,
			Total:     v.FSSize,
			Used:      v.FSSize / 4,
			Available: v.FSSize - v.FSSize/4,
		},
			{Unit: pb.VolumeUsage_INODES, Total: 1000, Used: 10, Available: 990}}
		out.ProtoReflect().SetUnknown(p.condition())
		return nil
	})
	return out, err
}

// NodeExpandVolume grows the file system to the volume.
func (p *Plugin) NodeExpandVolume(
	_ context.Context, r *pb.NodeExpandVolumeRequest,
) (*pb.NodeExpandVolumeResponse, error) {
	if err := firstErr(p.nodeOffers(csi.CapNodeExpand), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetVolumePath() != "", "volume path")); err != nil {
		return nil, err
	}
	out := &pb.NodeExpandVolumeResponse{}
	err := p.onVolume(r.GetVolumeId(), func(v *volume) error {
		if !v.at(p.cfg.NodeID, r.GetVolumePath()) {
			return status.Errorf(codes.NotFound, "volume %q is not at %q", v.ID, r.GetVolumePath())
		}
		if r.GetCapacityRange().GetRequiredBytes() > v.Size {
			return status.Errorf(codes.OutOfRange, "the volume has only %d bytes", v.Size)
		}
		v.FSSize = v.Size
		out.CapacityBytes = v.Size
		return nil
	})
	return out, err
}

// bind mounts from at to unless it is mounted there already; with MountNothing it does nothing.
func (p *Plugin) bind(from, to string, readOnly bool) error {
	if p.cfg.Mount == MountNothing {
		return nil
	}
	if mounted, err := mountinfo.Mounted(to); err != nil || mounted {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return status.Errorf(codes.Internal, "bind %s to %s: %s", from, to, err.Error())
	}
	if readOnly {
		if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return status.Errorf(codes.Internal, "make %s read-only: %s", to, err.Error())
		}
	}
	return nil
}

// unmount undoes every mount at a path; a path that is not there is no error.
func (p *Plugin) unmount(path string) error {
	for {
		mounted, err := mountinfo.Mounted(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !mounted {
			return nil
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		if err := unix.Unmount(path, 0); err != nil {
			return status.Errorf(codes.Internal, "unmount %s: %s", path, err.Error())
		}
	}
}

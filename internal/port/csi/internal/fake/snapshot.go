package fake

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/internal/base/ids"
	"berth/internal/port/csi"
)

func (p *Plugin) snapDir(id string) string {
	return filepath.Join(p.cfg.Dir, "snapshots", ids.Segment(id))
}

func (p *Plugin) snapshotPB(s *snapshot) *pb.Snapshot {
	return &pb.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Size, CreationTime: timestamppb.New(s.CreatedAt),
		ReadyToUse: s.Polls >= p.cfg.SnapPolls, GroupSnapshotId: s.Group}
}

// cutSnapshot copies the volume as it is now.
func (p *Plugin) cutSnapshot(st *state, v *volume, name, group string) (*snapshot, error) {
	s := &snapshot{ID: st.newID("snap"), Name: name, Volume: v.ID, Group: group, Size: v.Size, CreatedAt: time.Now().UTC()}
	if err := os.CopyFS(p.snapDir(s.ID), os.DirFS(p.volumeDir(v.ID))); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	st.Snapshots[s.ID] = s
	return s, nil
}

// CreateSnapshot is idempotent by name and becomes ready after SnapPolls repetitions.
func (p *Plugin) CreateSnapshot(_ context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	if err := firstErr(p.offers(csi.CapSnapshot), need(r.GetName() != "", "name"), need(r.GetSourceVolumeId() != "", "source volume id")); err != nil {
		return nil, err
	}
	out := &pb.CreateSnapshotResponse{}
	err := p.store.update(func(st *state) error {
		for _, s := range st.Snapshots {
			if s.Name != r.GetName() {
				continue
			}
			if s.Args != args(r) {
				return status.Errorf(codes.AlreadyExists, "snapshot %q exists with other arguments", r.GetName())
			}
			s.Polls++
			out.Snapshot = p.snapshotPB(s)
			return nil
		}
		v := st.Volumes[r.GetSourceVolumeId()]
		if v == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", r.GetSourceVolumeId())
		}
		s, err := p.cutSnapshot(st, v, r.GetName(), "")
		if err != nil {
			return err
		}
		s.Args = args(r)
		out.Snapshot = p.snapshotPB(s)
		return nil
	})
	return out, err
}

// DeleteSnapshot refuses members of groups.
func (p *Plugin) DeleteSnapshot(_ context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	if err := firstErr(p.offers(csi.CapSnapshot), need(r.GetSnapshotId() != "", "snapshot id")); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		s := st.Snapshots[r.GetSnapshotId()]
		if s == nil {
			return nil
		}
		if s.Group != "" {
			return status.Errorf(codes.InvalidArgument, "snapshot %q belongs to the group %q", s.ID, s.Group)
		}
		return p.dropSnapshot(st, s.ID)
	})
	return &pb.DeleteSnapshotResponse{}, err
}

func (p *Plugin) dropSnapshot(st *state, id string) error {
	delete(st.Snapshots, id)
	if err := os.RemoveAll(p.snapDir(id)); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// ListSnapshots lists by id.
func (p *Plugin) ListSnapshots(_ context.Context, r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	if err := p.offers(csi.CapListSnapshots); err != nil {
		return nil, err
	}
	out := &pb.ListSnapshotsResponse{}
	err := p.store.update(func(st *state) error {
		var all []string
		for id, s := range st.Snapshots {
			if (r.GetSnapshotId() == "" || r.GetSnapshotId() == id) && (r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.Volume) {
				all = append(all, id)
			}
		}
		some, next, err := page(all, r.GetMaxEntries(), r.GetStartingToken())
		out.NextToken = next
		for _, id := range some {
			out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{Snapshot: p.snapshotPB(st.Snapshots[id])})
		}
		return err
	})
	return out, err
}

// GroupControllerGetCapabilities offers the one capability there is.
func (p *Plugin) GroupControllerGetCapabilities(context.Context, *pb.GroupControllerGetCapabilitiesRequest) (*pb.GroupControllerGetCapabilitiesResponse, error) {
	return &pb.GroupControllerGetCapabilitiesResponse{Capabilities: []*pb.GroupControllerServiceCapability{{Type: &pb.GroupControllerServiceCapability_Rpc{
		Rpc: &pb.GroupControllerServiceCapability_RPC{Type: pb.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT}}}}}, nil
}

func (p *Plugin) groupPB(st *state, g *group) *pb.VolumeGroupSnapshot {
	out := &pb.VolumeGroupSnapshot{GroupSnapshotId: g.ID, CreationTime: timestamppb.New(g.CreatedAt), ReadyToUse: true}
	for _, id := range g.Members {
		s := p.snapshotPB(st.Snapshots[id])
		out.ReadyToUse = out.ReadyToUse && s.ReadyToUse
		out.Snapshots = append(out.Snapshots, s)
	}
	return out
}

// CreateVolumeGroupSnapshot cuts all or nothing.
func (p *Plugin) CreateVolumeGroupSnapshot(_ context.Context, r *pb.CreateVolumeGroupSnapshotRequest) (*pb.CreateVolumeGroupSnapshotResponse, error) {
	if err := firstErr(need(r.GetName() != "", "name"), need(len(r.GetSourceVolumeIds()) > 0, "source volume ids")); err != nil {
		return nil, err
	}
	out := &pb.CreateVolumeGroupSnapshotResponse{}
	err := p.store.update(func(st *state) error {
		for _, g := range st.Groups {
			if g.Name != r.GetName() {
				continue
			}
			if g.Args != args(r) {
				return status.Errorf(codes.AlreadyExists, "group snapshot %q exists with other arguments", r.GetName())
			}
			for _, id := range g.Members {
				st.Snapshots[id].Polls++
			}
			out.GroupSnapshot = p.groupPB(st, g)
			return nil
		}
		for _, id := range r.GetSourceVolumeIds() {
			if st.Volumes[id] == nil {
				return status.Errorf(codes.NotFound, "volume %q does not exist", id)
			}
		}
		g := &group{ID: st.newID("group"), Name: r.GetName(), Args: args(r), CreatedAt: time.Now().UTC()}
		for _, id := range r.GetSourceVolumeIds() {
			s, err := p.cutSnapshot(st, st.Volumes[id], r.GetName()+"/"+id, g.ID)
			if err != nil {
				return err
			}
			g.Members = append(g.Members, s.ID)
		}
		st.Groups[g.ID] = g
		out.GroupSnapshot = p.groupPB(st, g)
		return nil
	})
	return out, err
}

func sameMembers(g *group, list []string) error {
	a, b := slices.Sorted(slices.Values(g.Members)), slices.Sorted(slices.Values(list))
	if !slices.Equal(a, b) {
		return status.Errorf(codes.InvalidArgument, "the members of %q are others", g.ID)
	}
	return nil
}

// DeleteVolumeGroupSnapshot deletes the group with its members.
func (p *Plugin) DeleteVolumeGroupSnapshot(_ context.Context, r *pb.DeleteVolumeGroupSnapshotRequest) (*pb.DeleteVolumeGroupSnapshotResponse, error) {
	if err := need(r.GetGroupSnapshotId() != "", "group snapshot id"); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		g := st.Groups[r.GetGroupSnapshotId()]
		if g == nil {
			return nil
		}
		if err := sameMembers(g, r.GetSnapshotIds()); err != nil {
			return err
		}
		for _, id := range g.Members {
			if err := p.dropSnapshot(st, id); err != nil {
				return err
			}
		}
		delete(st.Groups, g.ID)
		return nil
	})
	return &pb.DeleteVolumeGroupSnapshotResponse{}, err
}

// GetVolumeGroupSnapshot reads a group.
func (p *Plugin) GetVolumeGroupSnapshot(_ context.Context, r *pb.GetVolumeGroupSnapshotRequest) (*pb.GetVolumeGroupSnapshotResponse, error) {
	if err := need(r.GetGroupSnapshotId() != "", "group snapshot id"); err != nil {
		return nil, err
	}
	out := &pb.GetVolumeGroupSnapshotResponse{}
	err := p.store.update(func(st *state) error {
		g := st.Groups[r.GetGroupSnapshotId()]
		if g == nil {
			return status.Errorf(codes.NotFound, "group snapshot %q does not exist", r.GetGroupSnapshotId())
		}
		out.GroupSnapshot = p.groupPB(st, g)
		return sameMembers(g, r.GetSnapshotIds())
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// topologyOf copies the node's segments.
func (p *Plugin) topologyOf() *pb.Topology {
	if len(p.cfg.Topology) == 0 {
		return nil
	}
	return &pb.Topology{Segments: maps.Clone(p.cfg.Topology)}
}

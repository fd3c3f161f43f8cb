package fake

import (
	"context"
	"maps"
	"os"
	"path/filepath"
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
	return &pb.Snapshot{
		SnapshotId:     s.ID,
		SourceVolumeId: s.Volume,
		SizeBytes:      s.Size,
		CreationTime:   timestamppb.New(s.CreatedAt),
		ReadyToUse:     s.Polls >= p.cfg.SnapPolls,
	}
}

// cutSnapshot copies the volume as it is now.
func (p *Plugin) cutSnapshot(st *state, v *volume, name, login string) (*snapshot, error) {
	id := st.newID("snap")
	if p.cfg.Defects["CreateSnapshot"] == DefectSecretID {
		id += " of " + login
	}
	s := &snapshot{
		ID:        id,
		Name:      name,
		Volume:    v.ID,
		Size:      v.Size,
		CreatedAt: time.Now().UTC(),
	}
	from, err := p.madeDir(v.ID)
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(p.snapDir(s.ID), os.DirFS(from)); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	st.Snapshots[s.ID] = s
	return s, nil
}

// CreateSnapshot is idempotent by name and becomes ready after SnapPolls repetitions.
func (p *Plugin) CreateSnapshot(_ context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	if err := firstErr(p.offers(csi.CapSnapshot), need(r.GetName() != "", "name"),
		need(r.GetSourceVolumeId() != "", "source volume id")); err != nil {
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
		s, err := p.cutSnapshot(st, v, r.GetName(), loginOf(r))
		if err != nil {
			return err
		}
		s.Args = args(r)
		out.Snapshot = p.snapshotPB(s)
		return nil
	})
	return out, err
}

// DeleteSnapshot deletes; what is gone is deleted.
func (p *Plugin) DeleteSnapshot(_ context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	if err := firstErr(p.offers(csi.CapSnapshot), need(r.GetSnapshotId() != "", "snapshot id")); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		s := st.Snapshots[r.GetSnapshotId()]
		if s == nil {
			return nil
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
			if (r.GetSnapshotId() == "" || r.GetSnapshotId() == id) &&
				(r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.Volume) {
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

// topologyOf copies the node's segments.
func (p *Plugin) topologyOf() *pb.Topology {
	if len(p.cfg.Topology) == 0 {
		return nil
	}
	return &pb.Topology{Segments: maps.Clone(p.cfg.Topology)}
}

package fake

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/internal/base/ids"
	"berth/internal/port/csi"
)

const defaultSize = 1 << 30

// args is the identity of a request: its fields without secrets.
func args(m proto.Message) string {
	c := proto.Clone(m)
	r := c.ProtoReflect()
	r.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() == "secrets" {
			r.Clear(f)
		}
		return true
	})
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return prototext.Format(c)
	}
	return fmt.Sprintf("%x", b)
}

func need(ok bool, what string) error {
	if !ok {
		return status.Errorf(codes.InvalidArgument, "%s is missing", what)
	}
	return nil
}

func checkCapability(c *pb.VolumeCapability) error {
	if c == nil || c.GetAccessMode().GetMode() == pb.VolumeCapability_AccessMode_UNKNOWN ||
		c.GetBlock() == nil && c.GetMount() == nil {
		return status.Error(codes.InvalidArgument, "volume capability is missing or incomplete")
	}
	return nil
}

func checkCapabilities(list []*pb.VolumeCapability) error {
	if len(list) == 0 {
		return status.Error(codes.InvalidArgument, "volume capabilities are missing")
	}
	for _, c := range list {
		if err := checkCapability(c); err != nil {
			return err
		}
	}
	return nil
}

// offers answers UNIMPLEMENTED to calls whose capability is not advertised: an orchestrator that sends them is caught.
func (p *Plugin) offers(c csi.ControllerCap) error {
	if !p.cfg.Controller.Has(c) {
		return status.Errorf(codes.Unimplemented, "%s is not offered", c)
	}
	return nil
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// CreateVolume is idempotent by name.
func (p *Plugin) CreateVolume(_ context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapCreateDelete), need(r.GetName() != "", "name"),
		checkCapabilities(r.GetVolumeCapabilities())); err != nil {
		return nil, err
	}
	if len(r.GetMutableParameters()) > 0 ||
		r.GetAccessibilityRequirements() != nil && !p.cfg.Plugin.Has(csi.CapAccessibility) {
		return nil, status.Error(codes.InvalidArgument, "a field is set whose capability is not advertised")
	}
	var out *volume
	err := p.store.update(func(st *state) (err error) {
		if out = st.names[r.GetName()]; out == nil {
			out, err = p.newVolume(st, r)
			return err
		}
		if out.Request != args(r) {
			return status.Errorf(codes.AlreadyExists, "volume %q exists with other arguments", r.GetName())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &pb.CreateVolumeResponse{Volume: p.volumePB(out)}, nil
}

func (p *Plugin) newVolume(st *state, r *pb.CreateVolumeRequest) (*volume, error) {
	size := r.GetCapacityRange().GetRequiredBytes()
	limit := r.GetCapacityRange().GetLimitBytes()
	if size == 0 {
		size = defaultSize
		if limit > 0 {
			size = min(size, limit)
		}
	}
	v := &volume{
		Name:           r.GetName(),
		Request:        args(r),
		Size:           size,
		SourceSnapshot: r.GetVolumeContentSource().GetSnapshot().GetSnapshotId(),
		SourceVolume:   r.GetVolumeContentSource().GetVolume().GetVolumeId(),
		Attached:       map[string]string{},
		Staged:         map[string]staged{},
		Published:      map[string]map[string]published{},
	}
	from, err := p.sourceOf(st, v)
	if err != nil {
		return nil, err
	}
	if size < 0 || limit > 0 && v.Size > limit || v.Size > p.cfg.Capacity {
		return nil, status.Errorf(codes.OutOfRange, "a volume of %d bytes cannot be made", v.Size)
	}
	if st.bytes+v.Size > p.cfg.Capacity {
		return nil, status.Errorf(codes.ResourceExhausted, "%d of %d bytes are in use", st.bytes, p.cfg.Capacity)
	}
	if p.cfg.Plugin.Has(csi.CapAccessibility) {
		where := append(slices.Clone(r.GetAccessibilityRequirements().GetPreferred()),
			r.GetAccessibilityRequirements().GetRequisite()...)
		switch {
		case len(where) > 0:
			v.Topology = []map[string]string{maps.Clone(where[0].GetSegments())}
		case len(p.cfg.Topology) > 0:
			v.Topology = []map[string]string{maps.Clone(p.cfg.Topology)}
		}
	}
	v.ID = st.newID("vol")
	if p.cfg.Defects["CreateVolume"] == DefectSecretID {
		v.ID += " of " + loginOf(r)
	}
	v.FSSize = v.Size
	v.Context = map[string]string{"fake/name": ids.Segment(v.Name)}
	if !p.cfg.Memory {
		if _, err := p.madeDir(v.ID); err != nil {
			return nil, err
		}
	}
	if from != "" {
		if err := os.CopyFS(p.volumeDir(v.ID), os.DirFS(from)); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	st.Volumes[v.ID], st.names[v.Name] = v, v
	st.bytes += v.Size
	return v, nil
}

// sourceOf is the directory that a volume is made from, which is at least as large then; empty: it is made from none.
func (p *Plugin) sourceOf(st *state, v *volume) (from string, err error) {
	if v.SourceSnapshot != "" {
		s := st.Snapshots[v.SourceSnapshot]
		if s == nil {
			return "", status.Errorf(codes.NotFound, "snapshot %q does not exist", v.SourceSnapshot)
		}
		v.Size, from = max(v.Size, s.Size), p.snapDir(s.ID)
	}
	if v.SourceVolume != "" {
		s := st.Volumes[v.SourceVolume]
		if s == nil {
			return "", status.Errorf(codes.NotFound, "volume %q does not exist", v.SourceVolume)
		}
		v.Size = max(v.Size, s.Size)
		return p.madeDir(s.ID)
	}
	return from, nil
}

func (p *Plugin) volumeDir(id string) string {
	return filepath.Join(p.cfg.Dir, "volumes", ids.Segment(id))
}

// madeDir is a volume's directory, which is there then: with the state in memory it is made when it is first used.
func (p *Plugin) madeDir(id string) (string, error) {
	dir := p.volumeDir(id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", status.Error(codes.Internal, err.Error())
	}
	return dir, nil
}

func (p *Plugin) volumePB(v *volume) *pb.Volume {
	out := &pb.Volume{VolumeId: v.ID, CapacityBytes: v.Size, VolumeContext: v.Context}
	for _, t := range v.Topology {
		out.AccessibleTopology = append(out.AccessibleTopology, &pb.Topology{Segments: t})
	}
	switch {
	case v.SourceSnapshot != "":
		out.ContentSource = &pb.VolumeContentSource{
			Type: &pb.VolumeContentSource_Snapshot{
				Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: v.SourceSnapshot},
			},
		}
	case v.SourceVolume != "":
		out.ContentSource = &pb.VolumeContentSource{
			Type: &pb.VolumeContentSource_Volume{
				Volume: &pb.VolumeContentSource_VolumeSource{VolumeId: v.SourceVolume},
			},
		}
	}
	return out
}

// DeleteVolume refuses while anything still holds the volume.
func (p *Plugin) DeleteVolume(_ context.Context, r *pb.DeleteVolumeRequest) (*pb.DeleteVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapCreateDelete), need(r.GetVolumeId() != "", "volume id")); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		v := st.Volumes[r.GetVolumeId()]
		if v == nil {
			return nil
		}
		if len(v.Attached) > 0 || len(v.Staged) > 0 || len(v.Published) > 0 {
			return status.Errorf(codes.FailedPrecondition, "volume %q is in use", v.ID)
		}
		delete(st.Volumes, v.ID)
		delete(st.names, v.Name)
		st.bytes -= v.Size
		if err := os.RemoveAll(p.volumeDir(v.ID)); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return nil
	})
	return &pb.DeleteVolumeResponse{}, err
}

// ControllerPublishVolume attaches.
func (p *Plugin) ControllerPublishVolume(
	_ context.Context, r *pb.ControllerPublishVolumeRequest,
) (*pb.ControllerPublishVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapAttach), need(r.GetVolumeId() != "", "volume id"),
		need(r.GetNodeId() != "", "node id"), checkCapability(r.GetVolumeCapability())); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		v, node := st.Volumes[r.GetVolumeId()], r.GetNodeId()
		if v == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", r.GetVolumeId())
		}
		facts, known := st.Nodes[node]
		if !known && node != p.cfg.NodeID {
			return status.Errorf(codes.NotFound, "node %q does not exist", node)
		}
		if r.GetReadonly() && !p.cfg.Controller.Has(csi.CapAttachReadOnly) {
			return status.Error(codes.InvalidArgument, "readonly without PUBLISH_READONLY")
		}
		if was, ok := v.Attached[node]; ok {
			if was != args(r) {
				return status.Errorf(codes.AlreadyExists, "volume %q is attached to %q with other arguments", v.ID,
					node)
			}
			return nil
		}
		if other := anyKey(v.Attached); other != "" && !multiNode(r.GetVolumeCapability()) {
			return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", v.ID, other)
		}
		if n := attachedTo(st, node); facts.MaxVolumes > 0 && n >= facts.MaxVolumes {
			return status.Errorf(codes.ResourceExhausted, "node %q has %d volumes attached already", node, n)
		}
		v.Attached[node] = args(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &pb.ControllerPublishVolumeResponse{
		PublishContext: map[string]string{"fake/device": ids.Segment(r.GetVolumeId(), r.GetNodeId())},
	}, nil
}

func multiNode(c *pb.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}

func anyKey[V any](m map[string]V) string {
	names := slices.Sorted(maps.Keys(m))
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func attachedTo(st *state, node string) (n int64) {
	for _, v := range st.Volumes {
		if _, ok := v.Attached[node]; ok {
			n++
		}
	}
	return n
}

// ControllerUnpublishVolume detaches; what is still used on the node is refused, as a strict driver does.
func (p *Plugin) ControllerUnpublishVolume(
	_ context.Context, r *pb.ControllerUnpublishVolumeRequest,
) (*pb.ControllerUnpublishVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapAttach), need(r.GetVolumeId() != "", "volume id")); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		v := st.Volumes[r.GetVolumeId()]
		if v == nil {
			return nil
		}
		for _, node := range slices.Sorted(maps.Keys(v.Attached)) {
			if r.GetNodeId() != "" && r.GetNodeId() != node {
				continue
			}
			if _, ok := v.Staged[node]; ok || len(v.Published[node]) > 0 {
				return status.Errorf(codes.Internal, "volume %q is still staged or published on %q", v.ID, node)
			}
			delete(v.Attached, node)
		}
		return nil
	})
	return &pb.ControllerUnpublishVolumeResponse{}, err
}

// ValidateVolumeCapabilities confirms everything, or what the script says.
func (p *Plugin) ValidateVolumeCapabilities(
	_ context.Context, r *pb.ValidateVolumeCapabilitiesRequest,
) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	if err := firstErr(need(r.GetVolumeId() != "", "volume id"),
		checkCapabilities(r.GetVolumeCapabilities())); err != nil {
		return nil, err
	}
	err := p.store.update(func(st *state) error {
		if st.Volumes[r.GetVolumeId()] == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", r.GetVolumeId())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &pb.ValidateVolumeCapabilitiesResponse{
		Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeContext: r.GetVolumeContext(),
			VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters()},
	}
	switch p.cfg.Defects["ValidateVolumeCapabilities"] {
	case DefectEmpty: // within the specification, but no word of consent
		out.Confirmed, out.Message = nil, "the fake does not look at capabilities"
	case DefectMore:
		out.Confirmed.VolumeCapabilities = append(slices.Clone(out.Confirmed.VolumeCapabilities), &pb.VolumeCapability{
			AccessMode: &pb.VolumeCapability_AccessMode{Mode: pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
			AccessType: &pb.VolumeCapability_Block{Block: &pb.VolumeCapability_BlockVolume{}}})
	}
	return out, nil
}

// DefectMore confirms a use that was not asked.
const DefectMore Defect = "more"

// page cuts a sorted list of ids at a token, which is the id to begin with.
func page(all []string, maxEntries int32, token string) (ids []string, next string, err error) {
	sort.Strings(all)
	at := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "the token %q is not valid", token)
		}
		at = n
	}
	end := len(all)
	if maxEntries > 0 {
		end = min(end, at+int(maxEntries))
	}
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[at:end], next, nil
}

// ListVolumes lists by id.
func (p *Plugin) ListVolumes(_ context.Context, r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
	if err := p.offers(csi.CapListVolumes); err != nil {
		return nil, err
	}
	out := &pb.ListVolumesResponse{}
	err := p.store.update(func(st *state) error {
		ids, next, err := page(slices.Collect(maps.Keys(st.Volumes)), r.GetMaxEntries(), r.GetStartingToken())
		out.NextToken = next
		for _, id := range ids {
			v := st.Volumes[id]
			s := &pb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached))}
			s.ProtoReflect().SetUnknown(p.condition())
			out.Entries = append(out.Entries, &pb.ListVolumesResponse_Entry{Volume: p.volumePB(v), Status: s})
		}
		return err
	})
	return out, err
}

// ControllerGetVolume tells of one volume what the list tells.
func (p *Plugin) ControllerGetVolume(
	_ context.Context, r *pb.ControllerGetVolumeRequest,
) (*pb.ControllerGetVolumeResponse, error) {
	if err := firstErr(p.offers(csi.CapGetVolume), need(r.GetVolumeId() != "", "volume id")); err != nil {
		return nil, err
	}
	out := &pb.ControllerGetVolumeResponse{}
	err := p.store.update(func(st *state) error {
		v := st.Volumes[r.GetVolumeId()]
		if v == nil {
			return status.Errorf(codes.NotFound, "volume %q does not exist", r.GetVolumeId())
		}
		out.Volume = p.volumePB(v)
		out.Status = &pb.ControllerGetVolumeResponse_VolumeStatus{
			PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached)),
		}
		out.Status.ProtoReflect().SetUnknown(p.condition())
		return nil
	})
	return out, err
}

// GetCapacity tells what is left.
func (p *Plugin) GetCapacity(context.Context, *pb.GetCapacityRequest) (*pb.GetCapacityResponse, error) {
	if err := p.offers(csi.CapGetCapacity); err != nil {
		return nil, err
	}
	out := &pb.GetCapacityResponse{}
	err := p.store.update(func(st *state) error {
		out.AvailableCapacity = max(0, p.cfg.Capacity-st.bytes)
		out.MaximumVolumeSize = wrapperspb.Int64(out.AvailableCapacity)
		return nil
	})
	return out, err
}

// ControllerGetCapabilities advertises what the configuration says.
func (p *Plugin) ControllerGetCapabilities(
	context.Context, *pb.ControllerGetCapabilitiesRequest,
) (*pb.ControllerGetCapabilitiesResponse, error) {
	out := &pb.ControllerGetCapabilitiesResponse{}
	for _, c := range p.cfg.Controller {
		out.Capabilities = append(out.Capabilities,
			&pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
				Rpc: &pb.ControllerServiceCapability_RPC{Type: pb.ControllerServiceCapability_RPC_Type(c)}}})
	}
	return out, nil
}

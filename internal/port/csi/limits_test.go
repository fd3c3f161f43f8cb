package csi

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/volume"
)

// armed is a client that has negotiated everything and has no connection: whatever passes its checks would panic, so
// these tests show that a refusal comes before the wire.
func armed() *Client {
	c := &Client{
		opts: Options{Plugin: "p", Log: slog.New(slog.DiscardHandler), MaxAnswer: DefaultMaxAnswer},
		end:  &ending{ch: make(chan struct{})},
	}
	i := Instance{Roles: RoleMonolith, Plugin: Caps[PluginCap]{CapController, CapAccessibility}}
	for n := range controllerCapNames {
		i.Controller = with(i.Controller, ControllerCap(n))
	}
	for n := range nodeCapNames {
		i.Node = with(i.Node, NodeCap(n))
	}
	c.inst.Store(&i)
	return c
}

var use = VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}

func TestI19_LimitsOfTheSpecificationHoldOnEverythingSent(t *testing.T) {
	c, ctx := armed(), t.Context()
	long, big := strings.Repeat("x", 129), map[string]string{"k": strings.Repeat("v", 4096)}
	creation := func(change func(*CreateVolumeRequest)) error {
		r := CreateVolumeRequest{Name: "n", Capabilities: []VolumeCapability{use}}
		change(&r)
		_, err := c.CreateVolume(ctx, r)
		return err
	}
	stage := func(change func(*StageRequest)) error {
		r := StageRequest{VolumeID: "v", StagingPath: "/s", Capability: use}
		change(&r)
		return c.Stage(ctx, r)
	}
	with := func(change func(*VolumeCapability)) error {
		return stage(func(r *StageRequest) { change(&r.Capability) })
	}
	for name, err := range map[string]error{
		"long name":            creation(func(r *CreateVolumeRequest) { r.Name = long }),
		"empty name":           creation(func(r *CreateVolumeRequest) { r.Name = "" }),
		"control in name":      creation(func(r *CreateVolumeRequest) { r.Name = "a\x01b" }),
		"high control in name": creation(func(r *CreateVolumeRequest) { r.Name = "a\u0085b" }),
		"UTF-8 name":           creation(func(r *CreateVolumeRequest) { r.Name = "a\xff" }),
		"no capability":        creation(func(r *CreateVolumeRequest) { r.Capabilities = nil }),
		"negative":             creation(func(r *CreateVolumeRequest) { r.Capacity.Required = -1 }),
		"upside down":          creation(func(r *CreateVolumeRequest) { r.Capacity = CapacityRange{2, 1} }),
		"big parameters":       creation(func(r *CreateVolumeRequest) { r.Parameters = big }),
		"secret key": creation(func(r *CreateVolumeRequest) {
			r.Secrets = redact.MapOf(map[string]string{"a b": "c"})
		}),
		"big secrets": creation(func(r *CreateVolumeRequest) { r.Secrets = redact.MapOf(big) }),
		"two sources": creation(func(r *CreateVolumeRequest) { r.Source = ContentSource{"a", "b"} }),
		"preferred": creation(func(r *CreateVolumeRequest) {
			r.Topology = TopologyRequirement{[]Topology{{"z": "a"}}, []Topology{{"z": "b"}}}
		}),
		"empty segments": creation(func(r *CreateVolumeRequest) { r.Topology.Requisite = []Topology{{}} }),
		"key twice": creation(func(r *CreateVolumeRequest) {
			r.Topology.Requisite = []Topology{{"Zone": "a", "zone": "a"}}
		}),
		"key": creation(func(r *CreateVolumeRequest) { r.Topology.Requisite = []Topology{{"a/b/c": "a"}} }),
		"prefix": creation(func(r *CreateVolumeRequest) {
			r.Topology.Requisite = []Topology{{"Big.example/zone": "a"}}
		}),
		"long value": creation(func(r *CreateVolumeRequest) {
			r.Topology.Requisite = []Topology{{"zone": strings.Repeat("a", 64)}}
		}),
		"node id": func() error {
			_, err := c.Attach(ctx, AttachRequest{VolumeID: "v", NodeID: strings.Repeat("n", 257), Capability: use})
			return err
		}(),
		"long volume id":      stage(func(r *StageRequest) { r.VolumeID = long }),
		"empty volume id":     stage(func(r *StageRequest) { r.VolumeID = "" }),
		"long path":           stage(func(r *StageRequest) { r.StagingPath = "/" + long }),
		"relative path":       stage(func(r *StageRequest) { r.StagingPath = "a/b" }),
		"unclean path":        stage(func(r *StageRequest) { r.StagingPath = "/a/../b" }),
		"big publish context": stage(func(r *StageRequest) { r.PublishContext = big }),
		"big volume context":  stage(func(r *StageRequest) { r.VolumeContext = big }),
		"no staging path":     c.Publish(ctx, PublishRequest{VolumeID: "v", TargetPath: "/t", Capability: use}),
		"long mount flags":    with(func(u *VolumeCapability) { u.MountFlags = MountFlags{strings.Repeat("f", 4097)} }),
		"access mode":         with(func(u *VolumeCapability) { u.AccessMode = "everybody" }),
		"attachment mode":     with(func(u *VolumeCapability) { u.AttachmentMode = "" }),
		"flags on a block": with(func(u *VolumeCapability) {
			u.AttachmentMode, u.MountFlags = volume.BlockDevice, MountFlags{"ro"}
		}),
		"long fs type": with(func(u *VolumeCapability) { u.FSType = long }),
		"no range": func() error {
			_, err := c.ExpandVolume(ctx, ExpandVolumeRequest{VolumeID: "v"})
			return err
		}(),
		"negative entries": func() error {
			_, err := c.ListVolumes(ctx, ListVolumesRequest{MaxEntries: -1})
			return err
		}(),
	} {
		e, is := AsError(err)
		if !is || e.Sent || !fault.Has(err, fault.Invalid) || e.Finality != Final || e.Retry != volume.RetryNever {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnsetFieldsAreNil(t *testing.T) {
	if m := mapPB(map[string]string{}); m != nil {
		t.Errorf("an empty map is sent as %v", m)
	}
	if l := listPB([]string{}); l != nil {
		t.Errorf("an empty list is sent as %v", l)
	}
	if r := rangePB(CapacityRange{}); r != nil {
		t.Errorf("no range is sent as %v", r)
	}
	if r := requirementPB(TopologyRequirement{Requisite: []Topology{}}); r != nil {
		t.Errorf("no topology is sent as %v", r)
	}
	if s := sourcePB(ContentSource{}); s != nil {
		t.Errorf("no source is sent as %v", s)
	}
	if c := optionalCapabilityPB(VolumeCapability{}); c != nil {
		t.Errorf("no capability is sent as %v", c)
	}
	if c := capabilityPB(use); c.GetMount() == nil || c.GetMount().MountFlags != nil {
		t.Errorf("a capability without flags is sent as %v", c)
	}
	flags := MountFlags{"a"}
	c := capabilityPB(
		VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem, MountFlags: flags})
	flags[0] = "b"
	if c.GetMount().MountFlags[0] != "a" {
		t.Error("the request shares memory with the caller's record")
	}
}

func TestI13_NoSecretLeavesThroughErrorsOrLogs(t *testing.T) {
	const secret = "S3CR3T\"with a quote"
	var log strings.Builder
	c := armed()
	c.opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	secrets := redact.MapOf(map[string]string{"password": secret, "empty": ""})
	k := c.begin(CreateVolume, "volume", "db", secrets)
	for _, message := range []string{"login with " + secret + " failed", fmt.Sprintf("bad password %q", secret),
		strings.Repeat("x", 1020) + secret, "a\x1b[31m\nb\u202e" + secret} {
		e := k.failure(status.New(codes.Unauthenticated, message), false)
		d := k.defect(message)
		for _, text := range []string{e.Error(), e.Message, d.Error(), d.Message, fmt.Sprintf("%+v", e.fault),
			log.String()} {
			if strings.Contains(text, "S3CR3T") || strings.Contains(text, "with a quote") {
				t.Errorf("the secret shows in %q", text)
			}
			if strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("control characters show in %q", text)
			}
		}
		if len(e.Message) > maxMessage {
			t.Errorf("a message of %d bytes", len(e.Message))
		}
	}
	req := StageRequest{
		VolumeID:   "v",
		Capability: VolumeCapability{MountFlags: MountFlags{"password=" + secret}},
		Secrets:    secrets,
	}
	for _, text := range []string{fmt.Sprintf("%v", req), fmt.Sprintf("%+v", req), fmt.Sprintf("%#v", req),
		fmt.Sprint(req.Capability.MountFlags)} {
		if strings.Contains(text, "S3CR3T") {
			t.Errorf("a formatted request shows its secret: %s", text)
		}
	}
}

// Given a plugin that repeats mount flags, then values that may be sensitive are masked and plain words are left.
func TestMountFlagsDoNotShowInErrors(t *testing.T) {
	k := armed().begin(NodeStageVolume, "volume", "db", nil)
	k.capabilities(
		VolumeCapability{
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			MountFlags:     MountFlags{"ro", "uid=0,password=S3CR3T-1", "note=a\"S3CR3T-2"},
		})
	for said, want := range map[string]string{
		"mount -o ro,uid=0,password=S3CR3T-1 failed 10 times": "mount -o ro,***,*** failed 10 times",
		"wrong password S3CR3T-1":                             "wrong password ***",
		`options ["note=a\"S3CR3T-2"]`:                        `options ["***"]`,
	} {
		e := k.failure(status.New(codes.Internal, said), false)
		if e.Message != want || strings.Contains(e.Error(), "S3CR3T") {
			t.Errorf("%q became %q, want %q; error %v", said, e.Message, want, e)
		}
	}
	answer := k.scrub("cannot use password=S3CR3T-1")
	if answer != "cannot use ***" {
		t.Errorf("a message beside an answer: %q", answer)
	}
}

func TestOversizeIsNotTakenForAFullNode(t *testing.T) {
	k := armed().begin(ControllerPublishVolume, "volume", "db", nil)
	s := status.New(codes.ResourceExhausted, "whatever")
	if e := k.failure(s, false); e.Retry != volume.RetryOtherPlace || e.Finality != Final {
		t.Errorf("the plugin's own no: %+v", e)
	}
	if e := k.failure(s, true); e.Retry != volume.RetryBackoff || e.Finality != Unknown {
		t.Errorf("an answer that is too large: %+v", e)
	}
}

func TestAnswersAreNotBelievedUnseen(t *testing.T) {
	now := timestamppb.Now()
	vol := func(change func(*pb.Volume)) string {
		v := &pb.Volume{VolumeId: "v"}
		change(v)
		_, wrong := volumeFrom(v, true)
		return wrong
	}
	snap := func(change func(*pb.Snapshot)) string {
		s := &pb.Snapshot{SnapshotId: "s", SourceVolumeId: "v", CreationTime: now}
		change(s)
		_, wrong := snapshotFrom(s)
		return wrong
	}
	if wrong := vol(func(*pb.Volume) {}); wrong != "" {
		t.Fatalf("a good volume: %s", wrong)
	}
	if wrong := snap(func(*pb.Snapshot) {}); wrong != "" {
		t.Fatalf("a good snapshot: %s", wrong)
	}
	_, _, usage := usageFrom([]*pb.VolumeUsage{{Unit: pb.VolumeUsage_BYTES, Used: -1}})
	for name, wrong := range map[string]string{
		"nil volume":        func() string { _, w := volumeFrom(nil, true); return w }(),
		"empty id":          vol(func(v *pb.Volume) { v.VolumeId = "" }),
		"negative capacity": vol(func(v *pb.Volume) { v.CapacityBytes = -1 }),
		"big context": vol(func(v *pb.Volume) {
			v.VolumeContext = map[string]string{"a": strings.Repeat("b", 5000)}
		}),
		"nil topology": vol(func(v *pb.Volume) { v.AccessibleTopology = []*pb.Topology{{}} }),
		"nil snapshot": func() string { _, w := snapshotFrom(nil); return w }(),
		"no source":    snap(func(s *pb.Snapshot) { s.SourceVolumeId = "" }),
		"no time":      snap(func(s *pb.Snapshot) { s.CreationTime = nil }),
		"time out of bounds": snap(func(s *pb.Snapshot) {
			s.CreationTime = &timestamppb.Timestamp{Seconds: math.MaxInt64}
		}),
		"negative size": snap(func(s *pb.Snapshot) { s.SizeBytes = -1 }),
		"usage":         usage,
		"too many":      pageFault(3, 2),
		"smaller than asked": answeredVolume(CreateVolumeRequest{Capacity: CapacityRange{Required: 2}},
			Volume{Capacity: 1}),
		"larger than asked": answeredVolume(CreateVolumeRequest{Capacity: CapacityRange{Limit: 2}},
			Volume{Capacity: 3}),
		"not from source": answeredVolume(CreateVolumeRequest{Source: ContentSource{SnapshotID: "s"}}, Volume{}),
	} {
		if wrong == "" {
			t.Errorf("%s passes", name)
		}
	}
	if wrong := vol(func(v *pb.Volume) { v.CapacityBytes = 0 }); wrong != "" {
		t.Errorf("an unknown capacity: %s", wrong)
	}
	if v, wrong := volumeFrom(
		&pb.Volume{
			VolumeId:           "v",
			AccessibleTopology: []*pb.Topology{{Segments: map[string]string{"z": "1"}}},
		}, false); wrong != "" || v.Topology != nil {
		t.Errorf("a topology without VOLUME_ACCESSIBILITY_CONSTRAINTS is used: %+v %s", v, wrong)
	}
}

func TestConfirmationsAreComparedByContents(t *testing.T) {
	asked := ValidateVolumeRequest{VolumeContext: map[string]string{"a": "b"}, Parameters: map[string]string{"p": "q"},
		Capabilities: []VolumeCapability{{
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			FSType:         "ext4",
			MountFlags:     MountFlags{"noatime", "sync"},
		}, {AccessMode: volume.MultiNodeReader, AttachmentMode: volume.FileSystem}}}
	flags := func(flags ...string) *pb.ValidateVolumeCapabilitiesResponse_Confirmed {
		c := asked.Capabilities[0]
		c.MountFlags = flags
		return &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: capabilitiesPB(
			[]VolumeCapability{c})}
	}
	only := func(c *pb.VolumeCapability) *pb.ValidateVolumeCapabilitiesResponse_Confirmed {
		return &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: []*pb.VolumeCapability{c}}
	}
	mount, block := capabilityPB(asked.Capabilities[0]), capabilityPB(
		VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.BlockDevice})
	good := &pb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      map[string]string{"a": "b"},
		VolumeCapabilities: capabilitiesPB(asked.Capabilities),
	}
	for name, c := range map[string]struct {
		got  *pb.ValidateVolumeCapabilitiesResponse_Confirmed
		want int
	}{
		"equal":                {good, 0},
		"only one of two":      {only(capabilityPB(asked.Capabilities[1])), 0},
		"flags left out":       {flags(), 0},
		"flags in other order": {flags("sync", "noatime"), 0},
		"other flags":          {flags("noatime", "other-flag"), 1},
		"fewer flags":          {flags("noatime"), 1},
		"without a mode":       {only(&pb.VolumeCapability{AccessType: mount.GetAccessType()}), 0},
		"without a type":       {only(&pb.VolumeCapability{AccessMode: mount.GetAccessMode()}), 0},
		"without anything":     {only(&pb.VolumeCapability{}), 0},
		"a block without mode": {only(&pb.VolumeCapability{AccessType: block.GetAccessType()}), 1},
		"left out":             {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{}, 0},
		"nil":                  {nil, 0},
		"other context": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: map[string]string{"a": "c"},
		}, 1},
		"other parameters": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{Parameters: map[string]string{"x": "y"}},
			1},
		"more than asked": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: capabilitiesPB(
				append(asked.Capabilities,
					VolumeCapability{AccessMode: volume.MultiNodeMultiWriter, AttachmentMode: volume.BlockDevice})),
		}, 1},
		"other mode": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: capabilitiesPB(
				[]VolumeCapability{{AccessMode: volume.MultiNodeSingleWriter, AttachmentMode: volume.FileSystem}}),
		}, 1},
		"block for mount": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: capabilitiesPB(
				[]VolumeCapability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.BlockDevice}}),
		}, 1},
		"other fs": {&pb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: capabilitiesPB(
				[]VolumeCapability{{
					AccessMode:     volume.SingleNodeWriter,
					AttachmentMode: volume.FileSystem,
					FSType:         "xfs",
				}}),
		}, 1},
	} {
		if got := compare(asked, c.got); len(got) != c.want {
			t.Errorf("%s: mismatches %v", name, got)
		}
	}
}

// A person must be able to see from the refusal what to change.
func TestADifferenceIsNamedInOurWords(t *testing.T) {
	asked := ValidateVolumeRequest{
		Capabilities: []VolumeCapability{{
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			FSType:         "ext4",
			MountFlags:     MountFlags{"noatime"},
		}},
	}
	got := compare(asked, &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: []*pb.VolumeCapability{
		{AccessMode: &pb.VolumeCapability_AccessMode{Mode: 99}},
		capabilityPB(
			VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem, FSType: "xfs"}),
		capabilityPB(VolumeCapability{
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			MountFlags:     MountFlags{"other-flag"},
		}),
		capabilityPB(VolumeCapability{AccessMode: volume.MultiNodeReader, AttachmentMode: volume.BlockDevice})}})
	want := []string{
		"volume_capabilities: 99 without an access type is confirmed, which was not asked",
		"volume_capabilities: single-node-writer file-system (xfs) is confirmed, which was not asked",
		"volume_capabilities: single-node-writer file-system is confirmed, with other mount_flags than asked",
		"volume_capabilities: multi-node-reader-only block-device is confirmed, which was not asked"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTopologyKeysCompareWithoutCase(t *testing.T) {
	node := Topology{"Zone": "z1", "rack": "r1"}
	for _, c := range []struct {
		place Topology
		want  bool
	}{{Topology{"zone": "z1"}, true}, {Topology{"ZONE": "z1", "RACK": "r1"}, true}, {Topology{"zone": "Z1"}, false},
		{Topology{"row": "1"}, false}, {Topology{}, true}} {
		if got := Within(c.place, node); got != c.want {
			t.Errorf("%v within %v = %v", c.place, node, got)
		}
	}
	if !SameTopology(Topology{"A": "1"}, Topology{"a": "1"}) || SameTopology(Topology{"a": "1"}, node) {
		t.Error("equality of topologies")
	}
}

func FuzzCondition(f *testing.F) {
	body := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "broken")
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body))
	f.Add([]byte{0x12, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &pb.NodeGetVolumeStatsResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		if c := armed().begin(NodeGetVolumeStats, "", "", nil).condition(m); c != nil && len(c.Message) > maxMessage {
			t.Errorf("a condition of %d bytes", len(c.Message))
		}
	})
}

func FuzzCleanAndCut(f *testing.F) {
	f.Add("héllo\x00\xff", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 8 || n > 4096 {
			return
		}
		got := cut(clean(s), n)
		if len(got) > n || strings.ToValidUTF8(got, "") != got || strings.ContainsAny(got, "\x00\n\x1b") {
			t.Errorf("cut(clean(%q), %d) = %q", s, n, got)
		}
	})
}

func TestDialRefusesBadPathsAndDeadSockets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // runs out at the dead socket
	defer cancel()
	for path, kind := range map[string]fault.Kind{"relative.sock": fault.Invalid,
		"/" + strings.Repeat("x", 107): fault.Invalid, "/nonexistent/csi.sock": fault.Unavailable} {
		if _, err := Dial(ctx, path, Options{Plugin: "ebs0"}); !fault.Has(err, kind) ||
			!strings.Contains(err.Error(), "ebs0") {
			t.Errorf("dial %s: %v", path, err)
		}
	}
}

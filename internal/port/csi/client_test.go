package csi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

// fsWriter is the use that most stories make of a volume.
var fsWriter = csi.VolumeCapability{
	AccessMode:     volume.MultiNodeMultiWriter,
	AttachmentMode: volume.FileSystem,
	FSType:         "ext4",
	MountFlags:     csi.MountFlags{"noatime"},
}

// paths makes a staging directory and a target whose parent exists.
func paths(t *testing.T, p *csitest.Plugin) (staging, target string) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(p.Socket), "n")
	if err := os.MkdirAll(filepath.Join(dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s"), filepath.Join(dir, "t")
}

func create(t *testing.T, c *csi.Client, name string) csi.Volume {
	t.Helper()
	v, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{
			Name:         name,
			Capacity:     csi.CapacityRange{Required: 1 << 20},
			Capabilities: []csi.VolumeCapability{fsWriter},
		})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAVolumeFromCreationToDeletion(t *testing.T) {
	needRoot(t)
	p := csitest.Alone(t, csitest.Options{})
	c := p.Connect()
	ctx := t.Context()
	secrets := redact.MapOf(map[string]string{"password": "s3cret"})
	v, err := c.CreateVolume(ctx, csi.CreateVolumeRequest{
		Name:         "db-1",
		Capacity:     csi.CapacityRange{Required: 1 << 20, Limit: 1 << 30},
		Capabilities: []csi.VolumeCapability{fsWriter},
		Parameters:   map[string]string{"tier": "fast"},
		Secrets:      secrets,
	})
	ok(t, err)
	if v.ID == "" || v.Capacity != 1<<20 || v.Context["fake/name"] == "" {
		t.Fatalf("volume = %+v", v)
	}
	a, err := c.Attach(ctx, csi.AttachRequest{
		VolumeID:      v.ID,
		NodeID:        "node-a",
		Capability:    fsWriter,
		VolumeContext: v.Context,
		Secrets:       secrets,
	})
	ok(t, err)
	staging, target := paths(t, p)
	ok(t, c.Stage(ctx, csi.StageRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		Capability:     fsWriter,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
	}))
	ok(t, c.Publish(ctx, csi.PublishRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		TargetPath:     target,
		Capability:     fsWriter,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
	}))
	if mounted, err := mountinfo.Mounted(target); err != nil || !mounted {
		t.Fatalf("the target is not mounted: %v", err)
	}
	ok(t, os.WriteFile(filepath.Join(target, "hello"), []byte("world"), 0o600))
	s, err := c.VolumeStats(ctx, csi.StatsRequest{VolumeID: v.ID, VolumePath: target, StagingPath: staging})
	ok(t, err)
	if s.Bytes == nil || s.Bytes.Total != 1<<20 || s.Inodes == nil || s.Condition != nil {
		t.Fatalf("stats = %+v", s)
	}
	ok(t, c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: v.ID, TargetPath: target}))
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the target is still there: %v", err)
	}
	ok(t, c.Unstage(ctx, csi.UnstageRequest{VolumeID: v.ID, StagingPath: staging}))
	ok(t, c.Detach(ctx, csi.DetachRequest{VolumeID: v.ID, NodeID: "node-a", Secrets: secrets}))
	ok(t, c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: v.ID, Secrets: secrets}))
	want := []string{"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume",
		"NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume"}
	if diff := cmp.Diff(want, p.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNegotiationTellsTheInstance(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{Plugin: csi.Caps[csi.PluginCap]{csi.CapAccessibility},
		Topology: map[string]string{"fake/zone": "z1"}, MaxVolumes: 7, NodeID: "n7"}})
	c := p.Dial(csi.Options{})
	if _, known := c.Instance(); known {
		t.Fatal("an instance is known before the negotiation")
	}
	_, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{Name: "early", Capabilities: []csi.VolumeCapability{fsWriter}})
	if !fault.Has(err, fault.NotReady) || csi.FinalityOf(err) != csi.Final {
		t.Fatalf("a call before the negotiation: %v", err)
	}
	i, err := c.Negotiate(t.Context(), csi.RoleMonolith)
	ok(t, err)
	if i.Name != "fake.csi.berth.test" || i.NodeID != "n7" || i.MaxVolumes != 7 || i.Topology["fake/zone"] != "z1" ||
		!i.NeedsAttach() || !i.Stages() || !i.TopologyAware() {
		t.Fatalf("instance = %+v", i)
	}
	var order []string
	for _, e := range p.Entries() {
		if e.Kind == "begin" {
			order = append(order, e.RPC)
		}
	}
	want := []string{"GetPluginInfo", "GetPluginCapabilities", "Probe", "ControllerGetCapabilities",
		"NodeGetCapabilities", "NodeGetInfo"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestARoleThatThePluginDoesNotServeIsRefused(t *testing.T) {
	nodeOnly := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{NoControl: true}})
	c := nodeOnly.Dial(csi.Options{})
	if _, err := c.Negotiate(t.Context(), csi.RoleController); !fault.Has(err, fault.Unsupported) {
		t.Errorf("controller role of a node plugin: %v", err)
	}
	i, err := c.Negotiate(t.Context(), csi.RoleNode)
	ok(t, err)
	if i.NodeID != "node-a" {
		t.Errorf("node id = %q", i.NodeID)
	}
	if _, err := c.Attach(t.Context(),
		csi.AttachRequest{VolumeID: "v", NodeID: "n", Capability: fsWriter}); !fault.Has(err, fault.Unsupported) {
		t.Errorf("attach through a node instance: %v", err)
	}
	if _, err := c.Negotiate(t.Context(), 0); !fault.Has(err, fault.Invalid) {
		t.Errorf("no role: %v", err)
	}
}

func TestAPluginThatStartsIsNotUnhealthy(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{NotReady: 2}})
	c := p.Dial(csi.Options{})
	if r, err := c.Probe(t.Context()); err != nil || r != csi.Initialising {
		t.Fatalf("first probe = %v, %v", r, err)
	}
	if _, err := c.Negotiate(t.Context(), csi.RoleMonolith); !fault.Has(err, fault.NotReady) ||
		csi.RetryOf(err) != volume.RetryBackoff {
		t.Fatalf("negotiation while starting: %v", err)
	}
	if _, err := c.Negotiate(t.Context(), csi.RoleMonolith); err != nil {
		t.Fatalf("negotiation when ready: %v", err)
	}
	p.Rules("(Probe * before FailedPrecondition)")
	_, err := c.Probe(t.Context())
	if csi.CodeOf(err) != codes.FailedPrecondition {
		t.Fatalf("unhealthy probe: %v", err)
	}
}

func TestADeadPluginIsAnEventAndItsClientIsDone(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{})
	c := p.Connect()
	select {
	case <-c.Lost():
		t.Fatal("lost while the plugin lives")
	default:
	}
	p.Crash()
	select {
	case <-c.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the end of the plugin went unnoticed")
	}
	// The next run answers on the same socket, but the old client never speaks to it: nothing was negotiated with it.
	before := len(p.Entries())
	err := c.DeleteVolume(t.Context(), csi.DeleteVolumeRequest{VolumeID: "v"})
	e, is := csi.AsError(err)
	if !is || e.Sent || e.Finality != csi.Final || !fault.Has(err, fault.Unavailable) {
		t.Fatalf("call over a lost connection: %#v", err)
	}
	if got := len(p.Entries()); got != before {
		t.Fatalf("the lost client reached the plugin: %v", p.Entries()[before:])
	}
	fresh := p.Connect()
	ok(t, fresh.DeleteVolume(t.Context(), csi.DeleteVolumeRequest{VolumeID: "v"}))
}

func TestTheEndOfABrokenCallIsNotKnown(t *testing.T) {
	for _, rule := range []string{"crash-before", "crash-after", "drop-socket", "hang", "hang-after",
		"after-effect DeadlineExceeded", "after-effect Unavailable"} {
		t.Run(strings.ReplaceAll(rule, " ", "_"), func(t *testing.T) {
			p := csitest.Alone(t, csitest.Options{Rules: []string{"(CreateVolume * " + rule + " once)"}})
			c := p.Dial(csi.Options{Timeouts: map[csi.RPC]time.Duration{csi.CreateVolume: 2 * time.Second}})
			_, err := c.Negotiate(t.Context(), csi.RoleMonolith)
			ok(t, err)
			req := csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{fsWriter}}
			_, err = c.CreateVolume(t.Context(), req)
			e, is := csi.AsError(err)
			if !is || e.Finality != csi.Unknown || e.Retry != volume.RetryBackoff || !e.Sent {
				t.Fatalf("err = %+v", err)
			}
			p.WaitReady()
			time.Sleep(30 * time.Millisecond)
			again, err := p.Connect().CreateVolume(t.Context(), req)
			ok(t, err)
			if again.ID != "vol-000001" {
				t.Errorf("the repetition made a second volume: %s", again.ID)
			}
		})
	}
}

func TestAnAnswerOfOKWithoutEffectIsBelieved(t *testing.T) {
	// The adapter cannot know; the mount table is asked by the keeper. What it can see, it refuses.
	p := csitest.Alone(t, csitest.Options{Rules: []string{"(CreateVolume * ok-without-effect)"}})
	_, err := p.Connect().CreateVolume(t.Context(),
		csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{fsWriter}})
	if !fault.Has(err, fault.Internal) || csi.FinalityOf(err) != csi.Unknown {
		t.Fatalf("an empty answer: %v", err)
	}
}

func TestAnswersOutsideOfTheSpecificationAreUncertain(t *testing.T) {
	for _, d := range []csitest.Defect{csitest.DefectEmpty, csitest.DefectHuge, csitest.DefectUTF8,
		csitest.DefectLongID, csitest.DefectNegative} {
		t.Run(string(d), func(t *testing.T) {
			p := csitest.Alone(t,
				csitest.Options{Fake: csitest.Fake{Defects: map[string]csitest.Defect{"CreateVolume": d}}})
			_, err := p.Connect().CreateVolume(t.Context(),
				csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{fsWriter}})
			if err == nil || csi.FinalityOf(err) != csi.Unknown || csi.RetryOf(err) != volume.RetryBackoff {
				t.Fatalf("err = %v", err)
			}
			t.Log(err)
			if d == csitest.DefectHuge && !strings.Contains(err.Error(), "4194304") {
				t.Errorf("the error does not name the bound: %v", err)
			}
		})
	}
	for rpc, d := range map[string]csitest.Defect{"NodeGetInfo": csitest.DefectEmpty,
		"GetPluginInfo": csitest.DefectEmpty} {
		t.Run(rpc, func(t *testing.T) {
			p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{Defects: map[string]csitest.Defect{rpc: d}}})
			if _, err := p.Dial(csi.Options{}).Negotiate(t.Context(), csi.RoleMonolith); !fault.Has(err,
				fault.Internal) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestI12_WhatIsNotAdvertisedIsNeverSent(t *testing.T) {
	none := csitest.Fake{Controller: csi.Caps[csi.ControllerCap]{}, Node: csi.Caps[csi.NodeCap]{}}
	p := csitest.Alone(t, csitest.Options{Fake: none})
	c := p.Connect()
	ctx := t.Context()
	capacity := csi.CapacityRange{Required: 1}
	calls := map[csi.RPC]func() error{
		csi.CreateVolume: func() error {
			_, err := c.CreateVolume(ctx,
				csi.CreateVolumeRequest{Name: "a", Capabilities: []csi.VolumeCapability{fsWriter}})
			return err
		},
		csi.DeleteVolume: func() error { return c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: "v"}) },
		csi.ControllerPublishVolume: func() error {
			_, err := c.Attach(ctx, csi.AttachRequest{VolumeID: "v", NodeID: "n", Capability: fsWriter})
			return err
		},
		csi.ControllerUnpublishVolume: func() error { return c.Detach(ctx, csi.DetachRequest{VolumeID: "v"}) },
		csi.ListVolumes: func() error {
			_, err := c.ListVolumes(ctx, csi.ListVolumesRequest{})
			return err
		},
		csi.CreateSnapshot: func() error {
			_, err := c.CreateSnapshot(ctx, csi.CreateSnapshotRequest{Name: "s", SourceVolumeID: "v"})
			return err
		},
		csi.DeleteSnapshot: func() error { return c.DeleteSnapshot(ctx, csi.DeleteSnapshotRequest{SnapshotID: "s"}) },
		csi.ListSnapshots:  func() error { _, err := c.ListSnapshots(ctx, csi.ListSnapshotsRequest{}); return err },
		csi.ControllerExpandVolume: func() error {
			_, err := c.ExpandVolume(ctx, csi.ExpandVolumeRequest{VolumeID: "v", Capacity: capacity})
			return err
		},
		csi.GetCapacity: func() error {
			_, err := c.Capacity(ctx, csi.CapacityRequest{})
			return err
		},
		csi.ControllerGetVolume: func() error { _, err := c.GetVolume(ctx, "v"); return err },
		csi.NodeStageVolume: func() error {
			return c.Stage(ctx, csi.StageRequest{VolumeID: "v", StagingPath: "/s", Capability: fsWriter})
		},
		csi.NodeUnstageVolume: func() error {
			return c.Unstage(ctx, csi.UnstageRequest{VolumeID: "v", StagingPath: "/s"})
		},
		csi.NodeGetVolumeStats: func() error {
			_, err := c.VolumeStats(ctx, csi.StatsRequest{VolumeID: "v", VolumePath: "/t"})
			return err
		},
		csi.NodeExpandVolume: func() error {
			_, err := c.NodeExpand(ctx, csi.NodeExpandRequest{VolumeID: "v", VolumePath: "/t"})
			return err
		},
	}
	negotiated := len(p.Entries())
	for rpc, call := range calls {
		err := call()
		e, is := csi.AsError(err)
		if !is || e.Sent || !fault.Has(err, fault.Unsupported) || e.Retry != volume.RetryNever ||
			e.Finality != csi.Final {
			t.Errorf("%s: %v", rpc, err)
		}
	}
	if sent := p.Entries()[negotiated:]; len(sent) > 0 {
		t.Errorf("sent: %v", sent)
	}
}

func TestI12_FieldsWithoutTheirCapabilityAreNeverSent(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{
		Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapAttach},
		Node:       csi.Caps[csi.NodeCap]{csi.CapStats},
	}})
	c := p.Connect()
	ctx := t.Context()
	base := csi.CreateVolumeRequest{Name: "a", Capabilities: []csi.VolumeCapability{fsWriter}}
	creation := func(change func(*csi.CreateVolumeRequest)) error {
		r := base
		change(&r)
		_, err := c.CreateVolume(ctx, r)
		return err
	}
	for name, err := range map[string]error{
		"topology": creation(func(r *csi.CreateVolumeRequest) { r.Topology.Requisite = []csi.Topology{{"zone": "a"}} }),
		"snapshot": creation(func(r *csi.CreateVolumeRequest) { r.Source.SnapshotID = "s" }),
		"clone":    creation(func(r *csi.CreateVolumeRequest) { r.Source.VolumeID = "v" }),
		"read-only": func() error {
			_, err := c.Attach(ctx, csi.AttachRequest{VolumeID: "v", NodeID: "n", Capability: fsWriter, ReadOnly: true})
			return err
		}(),
		"staging path": c.Publish(ctx,
			csi.PublishRequest{VolumeID: "v", TargetPath: "/t", StagingPath: "/s", Capability: fsWriter}),
	} {
		if e, is := csi.AsError(err); !is || e.Sent || !fault.Has(err, fault.Unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAlphaModesAreNeverSent(t *testing.T) {
	f := csitest.Fake{
		Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapSingleNodeModesCtrl},
		Node:       csi.Caps[csi.NodeCap]{csi.CapSingleNodeModesNode},
	}
	c := csitest.Alone(t, csitest.Options{Fake: f}).Connect()
	for _, mode := range []volume.AccessMode{"single-node-single-writer", "single-node-multi-writer"} {
		_, err := c.CreateVolume(t.Context(), csi.CreateVolumeRequest{
			Name:         "a",
			Capabilities: []csi.VolumeCapability{{AccessMode: mode, AttachmentMode: volume.FileSystem}},
		})
		if e, is := csi.AsError(err); !is || e.Sent || !fault.Has(err, fault.Invalid) {
			t.Errorf("%s, of a plugin that advertises it: %v", mode, err)
		}
	}
}

func TestConditionOfOlderPluginsIsRead(t *testing.T) {
	p := csitest.Alone(t,
		csitest.Options{Fake: csitest.Fake{Mount: csitest.MountNothing, Condition: "two disks have failed"}})
	c := p.Connect()
	v := create(t, c, "db")
	page, err := c.ListVolumes(t.Context(), csi.ListVolumesRequest{})
	ok(t, err)
	if len(page.Entries) != 1 || page.Entries[0].Volume.ID != v.ID || page.Entries[0].Condition == nil ||
		!page.Entries[0].Condition.Abnormal || page.Entries[0].Condition.Message != "two disks have failed" {
		t.Fatalf("page = %+v", page)
	}
	if !page.Entries[0].NodesKnown || page.Entries[0].NodeIDs != nil {
		t.Errorf("attached nodes = %+v", page.Entries[0])
	}
}

// TestAVolumeIsReadWithItsCondition: by plugins that offer both, and others are not asked.
func TestAVolumeIsReadWithItsCondition(t *testing.T) {
	read := func(condition string, caps ...csi.ControllerCap) (csi.VolumeEntry, csi.Volume, error) {
		p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{
			Mount:      csitest.MountNothing,
			Controller: append(caps, csi.CapCreateDelete),
			Condition:  condition,
		}})
		c := p.Connect()
		v := create(t, c, "db")
		out, err := c.GetVolume(t.Context(), v.ID)
		if _, err := c.GetVolume(t.Context(), "none"); err == nil {
			t.Error("a volume that does not exist was read")
		}
		return out, v, err
	}
	got, v, err := read("two disks have failed", csi.CapGetVolume)
	ok(t, err)
	if got.Volume.ID != v.ID || got.NodesKnown || got.Condition == nil || !got.Condition.Abnormal ||
		got.Condition.Message != "two disks have failed" {
		t.Errorf("it is read as %+v", got)
	}
	for name, caps := range map[string][]csi.ControllerCap{
		"GET_VOLUME":       {csi.CapVolumeConditionCtrl},
		"VOLUME_CONDITION": {csi.CapGetVolume},
	} {
		_, _, err := read("", caps...)
		if e, is := csi.AsError(err); !is || e.Sent || e.Code != codes.Unimplemented {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestListsComeInPagesAndAStaleTokenSaysBeginAnew(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{})
	c := p.Connect()
	for _, n := range []string{"a", "b", "c"} {
		create(t, c, n)
	}
	var ids []string
	token := ""
	for {
		page, err := c.ListVolumes(t.Context(), csi.ListVolumesRequest{MaxEntries: 2, Token: token})
		ok(t, err)
		for _, e := range page.Entries {
			ids = append(ids, e.Volume.ID)
		}
		if token = page.NextToken; token == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"vol-000001", "vol-000002", "vol-000003"}, ids); diff != "" {
		t.Error(diff)
	}
	_, err := c.ListVolumes(t.Context(), csi.ListVolumesRequest{Token: "stale"})
	if csi.RetryOf(err) != volume.RetryRestartListing || csi.CodeOf(err) != codes.Aborted {
		t.Errorf("stale token: %v", err)
	}
}

func TestSnapshotsClonesAndExpansion(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{SnapPolls: 2, NodeExpand: true}})
	c := p.Connect()
	ctx := t.Context()
	v := create(t, c, "db")
	sreq := csi.CreateSnapshotRequest{Name: "s1", SourceVolumeID: v.ID}
	s, err := c.CreateSnapshot(ctx, sreq)
	ok(t, err)
	if s.Ready || s.CreatedAt.IsZero() {
		t.Fatalf("snapshot = %+v", s)
	}
	for range 2 {
		s, err = c.CreateSnapshot(ctx, sreq)
		ok(t, err)
	}
	if !s.Ready {
		t.Fatal("the snapshot does not become ready")
	}
	clone, err := c.CreateVolume(ctx,
		csi.CreateVolumeRequest{
			Name:         "clone",
			Capabilities: []csi.VolumeCapability{fsWriter},
			Source:       csi.ContentSource{SnapshotID: s.ID},
		})
	ok(t, err)
	if clone.Source.SnapshotID != s.ID {
		t.Errorf("clone = %+v", clone)
	}
	page, err := c.ListSnapshots(ctx, csi.ListSnapshotsRequest{SourceVolumeID: v.ID})
	ok(t, err)
	if len(page.Snapshots) != 1 {
		t.Errorf("snapshots = %+v", page)
	}
	ok(t, c.DeleteSnapshot(ctx, csi.DeleteSnapshotRequest{SnapshotID: s.ID}))
	x, err := c.ExpandVolume(ctx,
		csi.ExpandVolumeRequest{VolumeID: v.ID, Capacity: csi.CapacityRange{Required: 2 << 20}, Capability: fsWriter})
	ok(t, err)
	if x.Capacity != 2<<20 || !x.NodeExpansionRequired {
		t.Errorf("expansion = %+v", x)
	}
	check, err := c.ValidateVolume(ctx,
		csi.ValidateVolumeRequest{
			VolumeID:      v.ID,
			VolumeContext: v.Context,
			Capabilities:  []csi.VolumeCapability{fsWriter},
		})
	ok(t, err)
	if !check.Confirmed || len(check.Mismatches) > 0 {
		t.Errorf("validation = %+v", check)
	}
}

// TestCapacityIsAskedForWhatACreationWouldUse: what is left, the largest volume, and nothing of a topology that the
// plugin does not know.
func TestCapacityIsAskedForWhatACreationWouldUse(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Fake: csitest.Fake{Capacity: 4 << 20}})
	c := p.Connect()
	create(t, c, "db")
	ask := csi.CapacityRequest{Capabilities: []csi.VolumeCapability{fsWriter}, Parameters: map[string]string{"k": "v"}}
	a, err := c.Capacity(t.Context(), ask)
	ok(t, err)
	if a.Available <= 0 || a.Available >= 4<<20 || a.MaximumVolume != a.Available {
		t.Errorf("got %+v", a)
	}
	ask.Topology = csi.Topology{"zone": "a"}
	if _, err := c.Capacity(t.Context(), ask); !fault.Has(err, fault.Unsupported) {
		t.Errorf("with a topology: %v", err)
	}
}

func TestBlockVolumes(t *testing.T) {
	needRoot(t)
	p := csitest.Alone(t,
		csitest.Options{Fake: csitest.Fake{Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete}}})
	c := p.Connect()
	ctx := t.Context()
	use := csi.VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.BlockDevice}
	v, err := c.CreateVolume(ctx,
		csi.CreateVolumeRequest{
			Name:         "raw",
			Capacity:     csi.CapacityRange{Required: 1 << 20},
			Capabilities: []csi.VolumeCapability{use},
		})
	ok(t, err)
	staging, target := paths(t, p)
	ok(t, c.Stage(ctx,
		csi.StageRequest{VolumeID: v.ID, StagingPath: staging, Capability: use, VolumeContext: v.Context}))
	ok(t, c.Publish(ctx, csi.PublishRequest{
		VolumeID:      v.ID,
		StagingPath:   staging,
		TargetPath:    target,
		Capability:    use,
		VolumeContext: v.Context,
	}))
	fi, err := os.Stat(target)
	ok(t, err)
	if fi.Mode()&os.ModeDevice == 0 {
		t.Errorf("the target is no device: %s", fi.Mode())
	}
	ok(t, c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: v.ID, TargetPath: target}))
	ok(t, c.Unstage(ctx, csi.UnstageRequest{VolumeID: v.ID, StagingPath: staging}))
	ok(t, c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: v.ID}))
}

func TestACancelledContextSendsNothing(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{})
	c := p.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: "v"})
	if e, is := csi.AsError(err); !is || e.Sent || !fault.Has(err, fault.Canceled) || e.Finality != csi.Final {
		t.Errorf("err = %v", err)
	}
	if calls := p.Calls(); len(calls) > 0 {
		t.Errorf("sent %v", calls)
	}
}

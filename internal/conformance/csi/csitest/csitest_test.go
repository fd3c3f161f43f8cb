package csitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// TestTwoNodesShareOneProvider is the shape of tests with several agents on one host: one backend, one record.
func TestTwoNodesShareOneProvider(t *testing.T) {
	dir := shortDir(t)
	caps := csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapAttach, csi.CapListVolumes,
		csi.CapListAttachedNodes}
	node := func(id string) *Plugin {
		return New(t, Options{
			Plugin:   "shared",
			Record:   filepath.Join(dir, "record"),
			Unjudged: "it judges what it breaks itself",
			Fake:     Fake{NodeID: id, Dir: filepath.Join(dir, "b"), Controller: caps, MaxVolumes: 1},
		})
	}
	a, b := node("a"), node("b")
	ca, cb := a.Connect(), b.Connect()
	ctx := t.Context()
	use := csi.VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}
	v, err := ca.CreateVolume(ctx, csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{use}})
	must(t, err)
	w, err := ca.CreateVolume(ctx, csi.CreateVolumeRequest{Name: "log", Capabilities: []csi.VolumeCapability{use}})
	must(t, err)
	_, err = ca.Attach(ctx, csi.AttachRequest{VolumeID: v.ID, NodeID: "b", Capability: use})
	must(t, err)
	_, err = ca.Attach(ctx, csi.AttachRequest{VolumeID: w.ID, NodeID: "b", Capability: use})
	if csi.CodeOf(err) != codes.ResourceExhausted || csi.RetryOf(err) != volume.RetryOtherPlace {
		t.Errorf("a full node: %v", err)
	}
	page, err := cb.ListVolumes(ctx, csi.ListVolumesRequest{})
	must(t, err)
	if len(page.Entries) != 2 || len(page.Entries[0].NodeIDs) != 1 || page.Entries[0].NodeIDs[0] != "b" {
		t.Errorf("attached nodes = %+v", page.Entries)
	}
	_, err = cb.Attach(ctx, csi.AttachRequest{VolumeID: v.ID, NodeID: "a", Capability: use})
	if csi.CodeOf(err) != codes.FailedPrecondition {
		t.Errorf("a second node of a single-node volume: %v", err)
	}
	found, err := oracle.Check(a.Entries(), alone{}.Facts(a))
	must(t, err)
	if len(found) != 1 || found[0].Invariant != "I14" {
		t.Errorf("the oracle sees %v", found)
	}
}

func TestMarksTellTheOracleWhatTheRecordCannot(t *testing.T) {
	p := Alone(t, Options{Rules: []string{"(DeleteVolume * before InvalidArgument once)"}})
	c := p.Connect()
	del := csi.DeleteVolumeRequest{VolumeID: "v"}
	if err := c.DeleteVolume(t.Context(), del); csi.CodeOf(err) != codes.InvalidArgument {
		t.Fatalf("err = %v", err)
	}
	p.Mark(proxy.SomethingNew, proxy.Entry{Volume: "v"}) // a person has corrected something and asked again
	must(t, c.DeleteVolume(t.Context(), del))
}

func TestCleaningUpNeverDeletesThroughAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	keep := t.TempDir()
	must(t, os.WriteFile(filepath.Join(keep, "precious"), []byte("data"), 0o600))
	dir, err := os.MkdirTemp("", "c")
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	must(t, bindMount(keep, filepath.Join(dir, "a")))
	must(t, bindMount(keep, filepath.Join(dir, "a")))
	must(t, removeTree(dir))
	if _, err := os.Stat(filepath.Join(keep, "precious")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestAViolationFailsTheTestThatMadeIt(t *testing.T) {
	w := &witness{TB: t}
	p := Alone(w, Options{Rules: []string{"(DeleteVolume * before Unavailable x2)"}})
	c := p.Connect()
	for range 3 {
		_ = c.DeleteVolume(t.Context(), csi.DeleteVolumeRequest{VolumeID: "v"}) // a hot loop
		time.Sleep(time.Millisecond)
	}
	for i := len(w.cleanup) - 1; i >= 0; i-- {
		w.cleanup[i]()
	}
	if all := strings.Join(w.texts, "\n"); !strings.Contains(all, "I11: DeleteVolume repeated") {
		t.Errorf("the test passes: %s", all)
	}
}

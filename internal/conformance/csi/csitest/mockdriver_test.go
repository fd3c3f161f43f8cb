package csitest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// TestAPluginThatNobodyHereWrote runs kubernetes-csi's mock-driver behind the proxy, which mounts on its behalf.
func TestAPluginThatNobodyHereWrote(t *testing.T) {
	driver := os.Getenv("CSI_MOCK_DRIVER")
	if driver == "" || os.Geteuid() != 0 {
		t.Skip("set CSI_MOCK_DRIVER to the mock-driver of kubernetes-csi/csi-test v4 and run as root")
	}
	socket := filepath.Join(shortDir(t), "csi.sock")
	p := Alone(t, Options{
		Plugin: "mock",
		Socket: socket,
		Rules:  []string{"(* * mount-tmpfs)"},
		Fake:   Fake{NodeID: "mock"},
		Backend: proxy.Command{
			Args:     []string{driver, "-node-expand-required", "-permissive-target-path"},
			Endpoint: socket,
			Out:      os.Stderr,
		},
	})
	c := p.Connect()
	i, _ := c.Instance()
	if !i.NeedsAttach() || !i.Stages() || i.NodeID == "" {
		t.Fatalf("instance = %+v", i)
	}
	ctx := t.Context()
	use := csi.VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem, FSType: "ext4"}
	v, err := c.CreateVolume(ctx,
		csi.CreateVolumeRequest{
			Name:         "db",
			Capacity:     csi.CapacityRange{Required: 1 << 30},
			Capabilities: []csi.VolumeCapability{use},
		})
	must(t, err)
	a, err := c.Attach(ctx,
		csi.AttachRequest{VolumeID: v.ID, NodeID: i.NodeID, Capability: use, VolumeContext: v.Context})
	must(t, err)
	dir := filepath.Dir(socket)
	staging, target := filepath.Join(dir, "s"), filepath.Join(dir, "t")
	must(t, os.Mkdir(staging, 0o700))
	must(t, c.Stage(ctx, csi.StageRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		Capability:     use,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
	}))
	must(t, c.Publish(ctx, csi.PublishRequest{
		VolumeID:       v.ID,
		StagingPath:    staging,
		TargetPath:     target,
		Capability:     use,
		PublishContext: a.PublishContext,
		VolumeContext:  v.Context,
	}))
	must(t, os.WriteFile(filepath.Join(target, "x"), []byte("y"), 0o600))
	x, err := c.ExpandVolume(ctx,
		csi.ExpandVolumeRequest{VolumeID: v.ID, Capacity: csi.CapacityRange{Required: 2 << 30}, Capability: use})
	must(t, err)
	if !x.NodeExpansionRequired {
		t.Errorf("expansion = %+v", x)
	}
	_, err = c.NodeExpand(ctx, csi.NodeExpandRequest{
		VolumeID:    v.ID,
		VolumePath:  target,
		StagingPath: staging,
		Capacity:    csi.CapacityRange{Required: 2 << 30},
		Capability:  use,
	})
	must(t, err)
	must(t, c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: v.ID, TargetPath: target}))
	must(t, c.Unstage(ctx, csi.UnstageRequest{VolumeID: v.ID, StagingPath: staging}))
	must(t, c.Detach(ctx, csi.DetachRequest{VolumeID: v.ID, NodeID: i.NodeID}))
	must(t, c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: v.ID}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bindMount(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND, "") }

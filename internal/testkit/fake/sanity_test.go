package fake

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"berth/internal/base/lifecycle"
	"berth/internal/port/csi"
)

// TestSanity runs kubernetes-csi's suite on the fake: what it does must be what real plugins do.
func TestSanity(t *testing.T) {
	dir, err := os.MkdirTemp("", "sanity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("fake", func() error {
		return Serve(gctx, socket, Config{
			NodeID:     "node-a",
			Dir:        filepath.Join(dir, "backend"),
			Plugin:     csi.Caps[csi.PluginCap]{csi.CapAccessibility},
			Topology:   map[string]string{"fake/zone": "z1"},
			MaxVolumes: 8,
		})
	})
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	for {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cfg := sanity.NewTestConfig()
	cfg.Address = "unix://" + socket
	cfg.TargetPath = filepath.Join(dir, "target")
	cfg.StagingPath = filepath.Join(dir, "staging")
	cfg.TestNodeVolumeAttachLimit = true
	sanity.Test(t, cfg)
}

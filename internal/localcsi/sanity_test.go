package localcsi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"berth/internal/localcsi/datadir"
)

// The whole conformance suite of kubernetes-csi, on real loop devices. Ginkgo runs one suite per process, so each
// shape of the plugin runs in a child.
func TestSanity(t *testing.T) {
	shape, child := os.LookupEnv("LOCALCSI_SANITY")
	if !child {
		t.Parallel()
		for _, shape := range []string{"plain", "attach", "block", "xfs"} {
			t.Run(shape, func(t *testing.T) {
				t.Parallel()
				runTestInChild(t, "TestSanity", "LOCALCSI_SANITY="+shape)
			})
		}
		return
	}
	w := newWorld(t, "", func(c *Config) {
		if shape == "attach" {
			c.Attach, c.AttachLimit = true, 8
		}
	})
	cfg := sanity.NewTestConfig()
	cfg.Address = w.cfg.Endpoint
	cfg.TargetPath, cfg.StagingPath = filepath.Join(w.base, "target"), filepath.Join(w.base, "staging")
	cfg.TestVolumeSize, cfg.TestVolumeExpandSize = 64<<20, 96<<20
	cfg.TestNodeVolumeAttachLimit = shape == "attach"
	switch shape {
	case "block":
		cfg.TestVolumeAccessType = "block"
	case "xfs":
		cfg.TestVolumeParameters = map[string]string{"fs_type": "xfs"}
		cfg.TestVolumeSize, cfg.TestVolumeExpandSize = 320<<20, 384<<20
	}
	sanity.Test(t, cfg)
	if left := w.everything(); len(left) > 0 {
		t.Errorf("the suite left %v", left)
	}
}

// everything lists the files that a plugin without volumes and snapshots should not have.
func (w *world) everything() (left []string) {
	for _, dir := range []string{datadir.VolumesDir, datadir.SnapshotsDir, datadir.MakingDir, datadir.TrashDir,
		datadir.UsageDir, datadir.FrozenDir} {
		entries, err := os.ReadDir(filepath.Join(w.cfg.DataDir, dir))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left
}

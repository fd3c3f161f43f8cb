package localcsi

import (
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Given a volume in use whose writers are stopped for its copy, when the plugin is killed and nobody starts it again,
// then they go on at once; the next start has nothing to do for them.
func TestAKilledPluginLeavesNoVolumeFrozen(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepFollowed, stepFrozen, stepCopied} {
		t.Run(step, func(t *testing.T) {
			w := newCrashWorld(t, "")
			w.run(order{KillAt: step, KillOn: 1})
			c := mountCap("ext4", multi)
			id := w.create(createReq("db", 64*mib, c))
			o := startOverwriter(filepath.Join(w.use(id, "a", c, false), "blocks"), 2000)
			o.goesOn(t, 20)
			_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			if err == nil {
				t.Error("the plugin was not killed")
			}
			died := <-w.died
			o.goesOn(t, 20)
			w.died <- died
			w.kill()
			w.run(order{})
			o.end(t)
			w.release(id, "a")
		})
	}
}

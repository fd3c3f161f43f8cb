package localcsi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/loop"
)

// empties are ways in which an image loses what it had.
var empties = map[string]func(path string, size int64) error{
	"cut off":     func(path string, _ int64) error { return os.Truncate(path, 0) },
	"half is cut": func(path string, size int64) error { return os.Truncate(path, size/2) },
	"a hole": func(path string, size int64) error {
		if err := os.Truncate(path, 0); err != nil {
			return err
		}
		return os.Truncate(path, size)
	},
}

// TestAnImageThatLostItsContentIsGivenToNobody: given a volume with data whose image was emptied, when it is staged,
// copied, grown or checked, also after a restart, then that is refused by its path and nothing is written; put back, it
// has what it had. A volume that may be used both ways is held by this as soon as it was mounted once.
func TestAnImageThatLostItsContentIsGivenToNobody(t *testing.T) {
	t.Parallel()
	both := []*csi.VolumeCapability{mountCap("ext4", single), blockCap(single)}
	for name, empty := range empties {
		for kind, caps := range map[string][]*csi.VolumeCapability{"mounts": both[:1], "both": both} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "", nil)
				id := w.create(createReq("v", 32*mib, caps...))
				path := w.image(id)
				at := w.use(id, "a", both[0], false)
				if err := os.WriteFile(filepath.Join(at, "data"), []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
				w.unpublish(id, "a")
				w.unstage(id)
				good, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := empty(path, int64(len(good))); err != nil {
					t.Fatal(err)
				}
				before, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				w.stop()
				if _, found := datadir.Check(w.cfg.DataDir, w.cfg.Identity); len(found) != 1 ||
					!strings.Contains(found[0].Error(), path) {
					t.Errorf("the check found %v", found)
				}
				w.start()
				refused := func(what string, err error) {
					t.Helper()
					wantCode(t, err, codes.FailedPrecondition)
					if err != nil && !strings.Contains(err.Error(), path) {
						t.Errorf("%s: the refusal does not name the image: %v", what, err)
					}
				}
				refused("staged", w.tryStage(id, both[0]))
				_, err = w.ctl.CreateSnapshot(t.Context(),
					&csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
				refused("snapshot", err)
				_, err = w.ctl.CreateVolume(t.Context(), fromVolume(createReq("c", 32*mib, caps...), id))
				refused("cloned", err)
				_, err = w.ctl.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
					VolumeId:      id,
					CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * mib},
				})
				refused("expanded", err)
				if now, err := os.Stat(path); err != nil || now.Size() != before.Size() ||
					!now.ModTime().Equal(before.ModTime()) {
					t.Errorf("the image was touched: %v, %v", now, err)
				}
				if err := os.WriteFile(path, good, 0o600); err != nil {
					t.Fatal(err)
				}
				at = w.use(id, "a", both[0], false)
				if text, err := os.ReadFile(filepath.Join(at, "data")); err != nil || string(text) != "kept" {
					t.Errorf("put back, it has %q, %v", text, err)
				}
				w.release(id, "a")
				w.remove(id)
				w.nothingLeft()
			})
		}
	}
}

// TestASnapshotThatLostItsContentMakesNoVolume: given a snapshot whose image was emptied, when a volume is to be made
// from it, then that is refused by its path, and there is no volume.
func TestASnapshotThatLostItsContentMakesNoVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	id := w.create(createReq("v", 32*mib, mountCap("ext4", single)))
	snap := w.snap("s", id)
	images, err := filepath.Glob(filepath.Join(w.cfg.DataDir, datadir.SnapshotsDir, "*", "image"))
	if err != nil || len(images) != 1 {
		t.Fatal(images, err)
	}
	good, err := os.ReadFile(images[0])
	if err != nil {
		t.Fatal(err)
	}
	req := fromSnapshot(createReq("r", 32*mib, mountCap("ext4", single)), snap)
	for name, empty := range empties {
		if err := empty(images[0], 32*mib); err != nil {
			t.Fatal(err)
		}
		_, err := w.ctl.CreateVolume(t.Context(), req)
		wantCode(t, err, codes.FailedPrecondition)
		if err == nil || !strings.Contains(err.Error(), images[0]) || !strings.Contains(err.Error(), snap) {
			t.Errorf("%s: %v", name, err)
		}
		if _, found := datadir.Check(w.cfg.DataDir, w.cfg.Identity); len(found) != 1 ||
			!strings.Contains(found[0].Error(), images[0]) {
			t.Errorf("%s: the check found %v", name, found)
		}
		list, bad := datadir.List(w.cfg.DataDir, w.cfg.Identity)
		if len(list) != 1 || list[0].ID != id || len(bad) != 1 || !strings.Contains(bad[0].Error(), snap) {
			t.Errorf("%s: a backup takes %v and leaves %v", name, list, bad)
		}
	}
	if err := os.WriteFile(images[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	made := w.create(req)
	w.use(made, "a", mountCap("ext4", single), false)
	w.release(made, "a")
	w.remove(made)
	w.remove(id)
	w.dropSnap(snap)
	w.nothingLeft()
}

// TestAnImageReplacedWhileInUseIsSaid: given a volume in use whose image was replaced by a file of the same bytes, when
// it is copied, measured, deleted or unmounted, then that is refused by the names of the image and of the device that
// alone has what is written now; saved as the refusal says, nothing that was written is lost.
func TestAnImageReplacedWhileInUseIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	mounts := mountCap("ext4", single)
	id := w.create(createReq("v", 32*mib, mounts))
	path := w.image(id)
	at := w.use(id, "a", mounts, false)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "data"), []byte("since"), 0o600); err != nil {
		t.Fatal(err)
	}
	device := loop.Path(w.ourLoops()[0].Number)
	refused := func(what string, err error) {
		t.Helper()
		wantCode(t, err, codes.FailedPrecondition)
		if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "dd if="+device+" ")) {
			t.Errorf("%s: the refusal does not name the image and the device: %v", what, err)
		}
	}
	_, err = w.ctl.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	refused("snapshot", err)
	_, err = w.ctl.CreateVolume(t.Context(), fromVolume(createReq("c", 32*mib, mounts), id))
	refused("cloned", err)
	_, err = w.ctl.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	refused("deleted", err)
	_, err = w.node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: at})
	refused("measured", err)
	_, err = w.node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: at})
	refused("unpublished", err)
	staged := w.stagingPath(id)
	_, err = w.node.NodeUnstageVolume(t.Context(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staged})
	refused("unstaged", err)

	for _, line := range [][]string{
		{"sync", "-f", at},
		{"dd", "if=" + device, "of=" + path + ".saved", "bs=1M", "conv=sparse,fsync"},
		{"mv", path + ".saved", path},
		{"umount", at, staged},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
	}
	w.unpublish(id, "a")
	w.unstage(id)
	at = w.use(id, "a", mounts, false)
	wantFile(t, filepath.Join(at, "data"), "since")
	w.release(id, "a")
	w.nothingLeft()
}

package localcsi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// TestAFormattingIsRecordedBeforeItBegins: one that is cut off is done again, neither mounted nor taken for data.
func TestAFormattingIsRecordedBeforeItBegins(t *testing.T) {
	t.Parallel()
	var recorded []string
	w := newWorld(t, "", func(cfg *Config) {
		dir := cfg.DataDir
		cfg.step = func(step string) {
			if !strings.HasPrefix(step, "stage: format") {
				return
			}
			metas, err := filepath.Glob(filepath.Join(dir, "volumes", "*", "meta.json"))
			if err != nil || len(metas) != 1 {
				t.Errorf("records: %q, %v", metas, err)
				return
			}
			text, err := os.ReadFile(metas[0])
			if err != nil {
				t.Error(err)
			}
			if strings.Contains(string(text), `"formatting": true`) {
				recorded = append(recorded, step)
			}
		}
	})
	both := []*csi.VolumeCapability{mountCap("ext4", single), blockCap(single)}
	id := w.create(createReq("both", 64*mib, both...))
	w.use(id, "a", both[0], false)
	if got := strings.Join(recorded, ", "); got != "stage: formatting recorded, stage: formatted" {
		t.Errorf("recorded as being formatted: %q", got)
	}
	w.release(id, "a")
	w.nothingLeft()
}

// TestAnotherFileSystemThanRecordedIsLeftAlone: somebody made it by the raw device.
func TestAnotherFileSystemThanRecordedIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	both := []*csi.VolumeCapability{mountCap("xfs", single), blockCap(single)}
	id := w.create(createReq("both", 512*mib, both...))
	dev := w.use(id, "a", both[1], false)
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", dev).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.unpublish(id, "a")
	w.unstage(id)
	err := w.tryStage(id, both[0])
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), "holds ext4") {
		t.Errorf("refused with %v", err)
	}
	w.release(id, "a")
	w.nothingLeft()
}

// TestAnImageThatStayedBehindItsVolumeGrowsAtTheNextStart: the plugin died between the record of an expansion and it.
// Where the image has less than before the expansion, it lost something, and is left alone.
func TestAnImageThatStayedBehindItsVolumeGrowsAtTheNextStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	id := w.create(createReq("raw", 32*mib, blockCap(single)))
	must2(w.ctl.ControllerExpandVolume(w.ctx(), &csi.ControllerExpandVolumeRequest{
		VolumeId:         id,
		CapacityRange:    &csi.CapacityRange{RequiredBytes: 64 * mib},
		VolumeCapability: blockCap(single),
	}))(t)
	for has, want := range map[int64]int64{32 * mib: 64 * mib, 32*mib - 512: 32*mib - 512} {
		w.stop()
		if err := os.Truncate(w.image(id), has); err != nil {
			t.Fatal(err)
		}
		w.start()
		if st, err := os.Stat(w.image(id)); err != nil || st.Size() != want {
			t.Errorf("of %d bytes: %v, %v, want %d", has, st, err, want)
		}
	}
	w.remove(id)
	w.nothingLeft()
}

// TestAFileSystemDoesNotSayWhatTheNodeDoesAboutItsErrors: given a file system that a workload made by the raw device,
// with a superblock that has the node panic on errors, when it is mounted, then errors make it read-only.
func TestAFileSystemDoesNotSayWhatTheNodeDoesAboutItsErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	both := []*csi.VolumeCapability{mountCap("ext4", single), blockCap(single)}
	id := w.create(createReq("both", 64*mib, both...))
	dev := w.use(id, "a", both[1], false)
	mkfs := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-e", "panic", dev)
	if out, err := mkfs.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.unpublish(id, "a")
	w.unstage(id)
	var st unix.Stat_t
	if err := unix.Stat(w.use(id, "b", both[0], false), &st); err != nil {
		t.Fatal(err)
	}
	options, err := os.ReadFile(fmt.Sprintf("/proc/fs/ext4/loop%d/options", unix.Minor(st.Dev)))
	if err != nil || !strings.Contains(string(options), "errors=remount-ro") {
		t.Errorf("%v, mounted with %s", err, options)
	}
	w.release(id, "b")
	w.remove(id)
	w.nothingLeft()
}

package localcsi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
)

// A volume is as large as it says, no larger, and keeps its data through a restart of the plugin.
func TestVolumeKeepsItsSizeAndData(t *testing.T) {
	t.Parallel()
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) {
			w := newWorld(t, "", nil)
			c := mountCap(fs, single)
			size := 64 * mib
			if fs == "xfs" {
				size = 300 * mib
			}
			id := w.create(createReq("db", size, c))
			at := w.use(id, "a", c, false)
			writeFile(t, filepath.Join(at, "kept"), "value")

			stats := must2(
				w.node.NodeGetVolumeStats(w.ctx(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: at}))(t)
			if len(stats.GetUsage()) != 2 || stats.Usage[0].GetTotal() > size || stats.Usage[0].GetTotal() < size/2 ||
				stats.Usage[1].GetTotal() == 0 {
				t.Fatalf("stats: %v", stats)
			}
			f := must2(os.Create(filepath.Join(at, "big")))(t)
			buf := make([]byte, mib)
			var written int64
			var err error
			for written < 2*size && err == nil {
				var n int
				n, err = f.Write(buf)
				written += int64(n)
			}
			f.Close()
			if !errors.Is(err, unix.ENOSPC) || written > size {
				t.Fatalf("wrote %d bytes of a volume of %d: %v", written, size, err)
			}

			w.restart() // the kernel keeps what is mounted
			wantFile(t, filepath.Join(at, "kept"), "value")
			w.unpublish(id, "a")
			w.unpublish(id, "a")
			w.unstage(id)
			w.unstage(id)
			at = w.use(id, "b", c, false)
			wantFile(t, filepath.Join(at, "kept"), "value")
			w.release(id, "b")
			w.nothingLeft()
		})
	}
}

// stores are the two kinds of file systems beneath a data directory: one that copies, one that shares blocks.
var stores = []string{"copying", "reflink"}

// storeDir returns a data directory of the kind; a reflink one lies on an xfs of its own.
func storeDir(t *testing.T, kind string) string {
	t.Helper()
	if kind == "copying" {
		return ""
	}
	return storeOn(t, 4*gib, "mkfs.xfs", "-q")
}

// storeOn returns a data directory on a file system of its own, which the command makes in a sparse image of that many
// bytes: how much the machine's own disk has left does not matter then.
func storeOn(t *testing.T, size int64, mkfs ...string) string {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	img, at := filepath.Join(base, "store.img"), filepath.Join(base, "store")
	f := must2(image.Create(img, size))(t)
	f.Close()
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], img)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f = must2(os.OpenFile(img, os.O_RDWR, 0))(t)
	defer f.Close()
	n, dev, err := loop.Attach(t.Context(), f, loop.Options{Autoclear: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := unix.Mount(loop.Path(n), at, "xfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := unix.Unmount(at, 0)
		for begun := time.Now(); errors.Is(err, unix.EBUSY) &&
			time.Since(begun) < time.Minute; err = unix.Unmount(at, 0) {
			time.Sleep(50 * time.Millisecond) // a copy of a mount in somebody's new mount namespace
		}
		if err != nil {
			t.Errorf("unmount the store: %v", err)
		}
	})
	return filepath.Join(at, "data")
}

// writer appends numbered lines to a file and syncs each, until it is stopped.
type writer struct {
	mu    sync.Mutex
	acked int // the last line that is surely on the volume
	begun int // the last line that may be
	slow  time.Duration
	stop  chan struct{}
	done  chan error
}

func startWriter(path string) *writer {
	w := &writer{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { w.done <- w.run(path) }()
	return w
}

func (w *writer) run(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := 1; ; i++ {
		select {
		case <-w.stop:
			return nil
		default:
		}
		w.mu.Lock()
		w.begun = i
		w.mu.Unlock()
		begun := time.Now()
		if _, err := fmt.Fprintf(f, "%08d\n", i); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		w.mu.Lock()
		w.acked, w.slow = i, max(w.slow, time.Since(begun))
		w.mu.Unlock()
	}
}

func (w *writer) progress() (acked, begun int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.begun
}

func (w *writer) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	if err := <-w.done; err != nil {
		t.Fatal(err)
	}
}

// A snapshot taken while somebody writes is one moment: the clone's file system is in order, all that was on the
// volume before the call is in it, nothing that was written after the call is, and there is no gap between.
func TestSnapshotWhileWriting(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("copies gigabytes: not in a short run")
	}
	for _, store := range stores {
		for _, fs := range []string{"ext4", "xfs"} {
			t.Run(store+"/"+fs, func(t *testing.T) {
				// A busy disk takes its time for a copy without reflinks.
				w := newWorld(t, storeDir(t, store), func(c *Config) { c.FreezeLimit = maxFreezeLimit })
				c := mountCap(fs, single)
				id := w.create(createReq("db", 320*mib, c))
				at := w.use(id, "a", c, false)
				writeFile(t, filepath.Join(at, "filler"), strings.Repeat("filler\n", 16<<20))
				if err := os.WriteFile(filepath.Join(at, "unsynced"), []byte("written before"), 0o600); err != nil {
					t.Fatal(err)
				}
				stopChurn := startChurn(t, at)
				wr := startWriter(filepath.Join(at, "log"))
				for a, _ := wr.progress(); a < 20; a, _ = wr.progress() {
					time.Sleep(time.Millisecond)
				}
				before, _ := wr.progress()
				sid := w.snap("s", id)
				_, after := wr.progress()
				time.Sleep(50 * time.Millisecond)
				wr.end(t)
				stopChurn()
				if wr.slow > time.Minute {
					t.Fatalf("a write took %s", wr.slow)
				}
				clone := w.create(fromSnapshot(createReq("copy", 384*mib, c), sid))
				wantSound(t, w.image(clone), fs)
				to := w.use(clone, "b", c, false) // while the source is mounted
				wantFile(t, filepath.Join(to, "unsynced"), "written before")
				wantChurn(t, to)
				n := wantLog(t, filepath.Join(to, "log"), before, after)
				t.Logf("%d lines in the clone, between %d and %d", n, before, after)

				var st unix.Statfs_t
				if err := unix.Statfs(to, &st); err != nil {
					t.Fatal(err)
				}
				if total := int64(st.Blocks) * st.Bsize; total < 310*mib {
					t.Fatalf("the clone's file system has %d MiB, it was asked to have 384", total/mib)
				}
				// Copies are independent: the source and the snapshot go, the clone stays.
				w.release(id, "a")
				w.dropSnap(sid)
				wantLog(t, filepath.Join(to, "log"), before, after)
				writeFile(t, filepath.Join(to, "new"), "more")
				w.release(clone, "b")
				w.nothingLeft()
			})
		}
	}
}

// startChurn makes, fills, renames and removes files all the time, so that a copy that is not of one moment has torn
// metadata. A file named done-<n> holds its own name many times.
func startChurn(t *testing.T, dir string) (stop func()) {
	var g sync.WaitGroup
	quit := make(chan struct{})
	for k := range 3 {
		g.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-quit:
					return
				default:
				}
				name := fmt.Sprintf("done-%d-%d", k, i)
				tmp := filepath.Join(dir, "tmp-"+name)
				err := os.WriteFile(tmp, bytes.Repeat([]byte(name+"\n"), 3000), 0o600)
				if err == nil {
					err = os.Rename(tmp, filepath.Join(dir, name))
				}
				if i >= 20 && err == nil {
					err = os.Remove(filepath.Join(dir, fmt.Sprintf("done-%d-%d", k, i-20)))
				}
				if err != nil {
					t.Errorf("churn: %v", err)
					return
				}
			}
		})
	}
	return func() { close(quit); g.Wait() }
}

func wantChurn(t *testing.T, dir string) {
	t.Helper()
	names := must2(filepath.Glob(filepath.Join(dir, "done-*")))(t)
	if len(names) == 0 {
		t.Fatal("no file of the churn is in the clone")
	}
	for _, path := range names {
		wantFile(t, path, strings.Repeat(filepath.Base(path)+"\n", 3000))
	}
}

func wantSound(t *testing.T, img, fs string) {
	t.Helper()
	cmd := exec.Command("e2fsck", "-f", "-n", img)
	if fs == "xfs" {
		// The frozen log holds its last transactions: like every mount, the check replays them on a copy first.
		tmp := filepath.Join(t.TempDir(), "x.img")
		if out, err := exec.Command("cp", "--sparse=always", img, tmp).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		at := t.TempDir()
		if out, err := exec.Command("mount", "-o", "loop,nouuid", tmp, at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command("xfs_repair", "-n", "-f", tmp)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the file system is not in order: %v\n%s", err, out)
	}
}

func wantLog(t *testing.T, path string, least, most int) int {
	t.Helper()
	text := must2(os.ReadFile(path))(t)
	// The last line may be cut: its write was under way.
	lines := strings.Split(string(text), "\n")
	n := len(lines) - 1
	for i, l := range lines[:n] {
		if l != fmt.Sprintf("%08d", i+1) {
			t.Fatalf("line %d of %s reads %q", i+1, path, l)
		}
	}
	if n < least || n > most {
		t.Fatalf("%s has %d lines, want %d to %d", path, n, least, most)
	}
	return n
}

// Given a copy that is not done within the time that the writers may be stopped, then it is given up: the writers go on
// and nothing is kept.
func TestSnapshotThatTakesTooLong(t *testing.T) {
	t.Parallel()
	frozen, resumed := make(chan struct{}), make(chan struct{})
	w := newWorld(t, "", func(c *Config) {
		c.step = func(s string) {
			if s == "copy: frozen" {
				close(frozen)
				<-resumed // the copy hangs until the writers go on
			}
		}
	})
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	at := w.use(id, "a", c, false)
	wr := startWriter(filepath.Join(at, "log"))
	refused := make(chan error, 1)
	go func() {
		_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
		refused <- err
	}()
	<-frozen
	acked, _ := wr.progress()
	// One more line may have been on the volume already and not counted yet.
	for a, _ := wr.progress(); a <= acked+1; a, _ = wr.progress() {
		time.Sleep(time.Millisecond)
	}
	close(resumed)
	if text := wantCode(t, <-refused, codes.FailedPrecondition); !strings.Contains(text, "stop the writers") {
		t.Fatalf("the refusal does not say the way out: %s", text)
	}
	wr.end(t)
	if snaps := must2(w.ctl.ListSnapshots(w.ctx(), &csi.ListSnapshotsRequest{}))(t); len(snaps.GetEntries()) > 0 {
		t.Fatalf("a snapshot was kept: %v", snaps)
	}
	w.release(id, "a")
	w.nothingLeft()
}

// A block volume in use can be copied where that is one step, and is refused where it is not.
func TestBlockVolume(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			w := newWorld(t, storeDir(t, store), nil)
			c := blockCap(multi)
			id := w.create(createReq("raw", 16*mib, c))
			at := w.use(id, "a", c, false)
			ro := must2(w.tryPublish(id, "reader", c, true))(t)
			dev := must2(os.OpenFile(at, os.O_RDWR|os.O_SYNC, 0))(t)
			must2(dev.WriteAt([]byte("hello"), 8192))(t)
			if f, err := os.OpenFile(ro, os.O_RDWR, 0); err == nil {
				if _, err = f.WriteAt([]byte("x"), 0); err == nil {
					err = f.Sync()
				}
				f.Close()
				if err == nil {
					t.Fatal("a read-only publication could be written to")
				}
			}
			_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			if store == "copying" {
				wantCode(t, err, codes.FailedPrecondition)
				dev.Close()
				w.unpublish(id, "a")
				w.unpublish(id, "reader")
				w.snap("s", id) // staged only: nobody writes
			} else if err != nil {
				t.Fatal(err)
			} else {
				dev.Close()
				w.unpublish(id, "a")
				w.unpublish(id, "reader")
			}
			clone := w.create(fromSnapshot(createReq("copy", 16*mib, c), w.snap("s", id)))
			to := w.use(clone, "b", c, false)
			got := make([]byte, 5)
			f := must2(os.Open(to))(t)
			must2(f.ReadAt(got, 8192))(t)
			f.Close()
			if !bytes.Equal(got, []byte("hello")) {
				t.Fatalf("the clone holds %q", got)
			}

			// Expansion reaches the device at once and asks for nothing on the node.
			r := must2(w.ctl.ControllerExpandVolume(w.ctx(), &csi.ControllerExpandVolumeRequest{
				VolumeId: clone, CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * mib},
			}))(t)
			f = must2(os.Open(to))(t)
			size := must2(f.Seek(0, 2))(t)
			f.Close()
			if r.GetNodeExpansionRequired() || size != 32*mib {
				t.Fatalf("node expansion required: %v, the device has %d", r.GetNodeExpansionRequired(), size)
			}
			stats := must2(
				w.node.NodeGetVolumeStats(w.ctx(), &csi.NodeGetVolumeStatsRequest{VolumeId: clone, VolumePath: to}))(t)
			if len(stats.GetUsage()) != 1 || stats.Usage[0].GetTotal() != 32*mib {
				t.Fatalf("stats: %v", stats)
			}
			w.restart()
			_, err = w.node.NodeUnstageVolume(w.ctx(),
				&csi.NodeUnstageVolumeRequest{VolumeId: clone, StagingTargetPath: w.stagingPath(clone)})
			wantCode(t, err, codes.FailedPrecondition) // it is published
			w.unpublish(clone, "b")
			before := len(w.ourLoops())
			if w.unstage(clone); len(w.ourLoops()) != before-1 {
				t.Errorf("%d loop devices before the volume was unstaged, then %d", before, len(w.ourLoops()))
			}
			w.remove(clone)
			w.unstage(id)
			w.remove(id)
			for _, s := range must2(w.ctl.ListSnapshots(w.ctx(), &csi.ListSnapshotsRequest{}))(t).GetEntries() {
				w.dropSnap(s.GetSnapshot().GetSnapshotId())
			}
			w.nothingLeft()
		})
	}
}

// An expansion while the volume is in use: xfs grows under its users; ext4 does where the kernel lets us, and else says
// so once and grows at its next staging.
func TestExpandInUse(t *testing.T) {
	t.Parallel()
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) {
			w := newWorld(t, "", nil)
			c := mountCap(fs, single)
			id := w.create(createReq("db", 320*mib, c))
			at := w.use(id, "a", c, false)
			writeFile(t, filepath.Join(at, "kept"), "value")
			total := func() int64 {
				var st unix.Statfs_t
				if err := unix.Statfs(at, &st); err != nil {
					t.Fatal(err)
				}
				return int64(st.Blocks) * st.Bsize
			}
			before := total()
			r := must2(w.ctl.ControllerExpandVolume(w.ctx(), &csi.ControllerExpandVolumeRequest{
				VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 640 * mib}, VolumeCapability: c,
			}))(t)
			if r.GetCapacityBytes() != 640*mib || !r.GetNodeExpansionRequired() {
				t.Fatalf("expand: %v", r)
			}
			_, err := w.node.NodeExpandVolume(w.ctx(), &csi.NodeExpandVolumeRequest{
				VolumeId:          id,
				VolumePath:        at,
				StagingTargetPath: w.stagingPath(id),
				CapacityRange:     &csi.CapacityRange{RequiredBytes: 640 * mib},
				VolumeCapability:  c,
			})
			if image.CanGrowMounted(fs) {
				if err != nil {
					t.Fatal(err)
				}
			} else {
				wantCode(t, err, codes.FailedPrecondition)
				w.unpublish(id, "a")
				w.unstage(id)
				w.use(id, "a", c, false)
			}
			if total() < before+250*mib {
				t.Fatalf("the file system had %d MiB and has %d", before/mib, total()/mib)
			}
			must2(w.node.NodeExpandVolume(w.ctx(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: at}))(t)
			wantFile(t, filepath.Join(at, "kept"), "value")
			w.release(id, "a")
			w.nothingLeft()
		})
	}
}

// Read-only is a property of a publication, and of every publication in a reader mode.
func TestReadOnlyPublications(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", multi)
	id := w.create(createReq("db", 64*mib, c, mountCap("ext4", reader)))
	at := w.use(id, "w", c, false)
	ro := must2(w.tryPublish(id, "r", c, true))(t)
	writeFile(t, filepath.Join(at, "f"), "seen")
	wantFile(t, filepath.Join(ro, "f"), "seen")
	if err := os.WriteFile(filepath.Join(ro, "g"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Fatalf("write to the read-only publication: %v", err)
	}
	if _, err := w.tryPublish(id, "r", c, true); err != nil {
		t.Fatalf("the same again: %v", err)
	}
	_, err := w.tryPublish(id, "r", c, false)
	wantCode(t, err, codes.AlreadyExists)
	_, err = w.tryPublish(id, "other", mountCap("ext4", single), false)
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)})
	wantCode(t, err, codes.FailedPrecondition)
	w.unpublish(id, "r")
	wantFile(t, filepath.Join(at, "f"), "seen")
	w.unpublish(id, "w")
	w.unstage(id)

	readers := mountCap("ext4", reader)
	ro = w.use(id, "r1", readers, false)
	must2(w.tryPublish(id, "r2", readers, false))(t)
	if err := os.WriteFile(filepath.Join(ro, "g"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Fatalf("write in a reader mode: %v", err)
	}
	w.unpublish(id, "r2")
	w.release(id, "r1")
	w.nothingLeft()
}

// What holds data is never formatted, and a volume for both uses is formatted when it is first mounted.
func TestNeverFormatsOverData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	both := []*csi.VolumeCapability{mountCap("ext4", single), blockCap(single)}
	id := w.create(createReq("both", 64*mib, both...))
	dev := w.use(id, "a", both[1], false)
	f := must2(os.OpenFile(dev, os.O_WRONLY|os.O_SYNC, 0))(t)
	must2(f.WriteAt([]byte("a database of somebody"), 32*mib))(t)
	f.Close()
	w.unpublish(id, "a")
	w.unstage(id)
	wantCode(t, w.tryStage(id, both[0]), codes.FailedPrecondition)

	w.use(id, "a", both[1], false)
	f = must2(os.OpenFile(dev, os.O_WRONLY|os.O_SYNC, 0))(t)
	must2(f.WriteAt(make([]byte, 64), 32*mib))(t)
	f.Close()
	w.unpublish(id, "a")
	w.unstage(id)
	at := w.use(id, "a", both[0], false)
	writeFile(t, filepath.Join(at, "f"), "x")
	w.unpublish(id, "a")
	w.unstage(id)
	at = w.use(id, "a", both[0], false)
	wantFile(t, filepath.Join(at, "f"), "x")
	w.release(id, "a")
	w.nothingLeft()
}

// A file system that was cut off is put in order before it is mounted; one that a program cannot mend is left alone.
func TestDirtyAndBrokenFileSystems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	at := w.use(id, "a", c, false)
	writeFile(t, filepath.Join(at, "f"), "before the power failed")
	cut := must2(os.ReadFile(w.image(id)))(t)
	w.unpublish(id, "a")
	w.unstage(id)
	if err := os.WriteFile(w.image(id), cut, 0o600); err != nil {
		t.Fatal(err)
	}
	if has := must2(image.Probe(w.image(id)))(t); has.Clean {
		t.Fatal("the copy of a mounted file system says that it is clean")
	}
	at = w.use(id, "a", c, false)
	wantFile(t, filepath.Join(at, "f"), "before the power failed")
	w.unpublish(id, "a")
	w.unstage(id)

	// The group descriptors and everything near are noise, and the superblock says that there were errors.
	f := must2(os.OpenFile(w.image(id), os.O_RDWR, 0))(t)
	must2(f.WriteAt(bytes.Repeat([]byte{0xA5}, 200<<10), 4096))(t)
	must2(f.WriteAt([]byte{2, 0}, 1024+0x3A))(t)
	f.Close()
	if text := wantCode(t, w.tryStage(id, c), codes.Internal); !strings.Contains(text, "e2fsck") ||
		!strings.Contains(text, w.image(id)) {
		t.Fatalf("the refusal does not say the way out: %s", text)
	}
	w.remove(id)
	w.nothingLeft()
}

// A check that outlives the plugin that began it holds the image: nothing is mounted or copied until it is done.
func TestProgramOfAnEarlierPlugin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	held := must2(image.Hold(w.image(id)))(t)
	orphan := exec.Command("sleep", "1000")
	orphan.ExtraFiles = []*os.File{held}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	held.Close()
	wantCode(t, w.tryStage(id, c), codes.Aborted)
	_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	wantCode(t, err, codes.Aborted)
	if err := orphan.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = orphan.Wait()
	w.use(id, "a", c, false)
	w.release(id, "a")
	w.nothingLeft()
}

// A mount that lives on in another mount namespace keeps the volume in use: it is not reported as released, nothing is
// deleted, and it is staged again on its very device or not at all: what one side writes, the other sees.
func TestHeldByAnotherNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits four times for a release that does not come, 20 s")
	}
	if !inOwnProcess(t) {
		return
	}
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill() })
	_, err := w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)})
	if text := wantCode(t, err, codes.FailedPrecondition); !strings.Contains(text, "another mount namespace") {
		t.Fatal(text)
	}
	_, err = w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	w.restart()
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	staged := w.stagingPath(id)
	if err := os.WriteFile(filepath.Join(staged, "file"), []byte("both"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := exec.Command("nsenter", "--mount=/proc/"+strconv.Itoa(holder.Process.Pid)+"/ns/mnt", "cat",
		filepath.Join(staged, "file")).CombinedOutput()
	if err != nil || string(seen) != "both" {
		t.Errorf("the holder sees %q, %v", seen, err)
	}
	_, err = w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staged})
	wantCode(t, err, codes.FailedPrecondition)
	wantCode(t, w.tryStage(id, mountCap("ext4", single, "noatime")), codes.FailedPrecondition)
	if err := w.tryStage(id, c); err != nil {
		t.Errorf("after another staging was refused: %v", err)
	}
	_, err = w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	w.unstage(id)
	w.remove(id)
	w.nothingLeft()
}

// A raw device that somebody has open cannot be released. Staged again, it stays when that one has gone.
func TestARawDeviceStagedAgainStays(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a release that does not come, 5 s")
	}
	if !inOwnProcess(t) {
		return
	}
	w := newWorld(t, "", nil)
	c := blockCap(single)
	id := w.create(createReq("db", 64*mib, c))
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	devices := w.ourLoops()
	if len(devices) != 1 {
		t.Fatalf("bound are %v", devices)
	}
	n := devices[0].Number
	user := must2(os.Open(loop.Path(n)))(t)
	_, err := w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)})
	wantCode(t, err, codes.FailedPrecondition)
	if err := w.tryStage(id, c); err != nil {
		t.Fatal(err)
	}
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	if _, bound, err := loop.Status(n); err != nil || !bound {
		t.Errorf("the device went with its last user: %v", err)
	}
	w.unstage(id)
	w.remove(id)
	w.nothingLeft()
}

// Mounts of others, and busy mounts, are left alone and named.
func TestForeignAndBusyMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	id := w.create(createReq("db", 64*mib, c))
	for _, path := range []string{w.stagingPath(id), w.targetPath(id, "x")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	wantCode(t, w.tryStage(id, c), codes.FailedPrecondition)
	_, err := w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.node.NodeUnpublishVolume(w.ctx(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.targetPath(id, "x")})
	wantCode(t, err, codes.FailedPrecondition)
	if err := unix.Unmount(w.stagingPath(id), 0); err != nil {
		t.Fatal(err)
	}

	at := w.use(id, "a", c, false)
	f := must2(os.Create(filepath.Join(at, "open")))(t)
	_, err = w.node.NodeUnpublishVolume(w.ctx(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: at})
	if text := wantCode(t, err, codes.FailedPrecondition); !strings.Contains(text, "process") {
		t.Fatal(text)
	}
	_, err = w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: id})
	if text := wantCode(t, err, codes.FailedPrecondition); !strings.Contains(text, at) {
		t.Fatalf("the refusal does not say where it is in use: %s", text)
	}
	f.Close()
	w.release(id, "a")
	w.nothingLeft()
}

// A group gets the volume's root, and what is made there.
func TestMountGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	c := mountCap("ext4", single)
	c.GetMount().VolumeMountGroup = "4242"
	id := w.create(createReq("db", 64*mib, c))
	at := w.use(id, "a", c, false)
	writeFile(t, filepath.Join(at, "f"), "x")
	for _, path := range []string{at, filepath.Join(at, "f")} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		if st.Gid != 4242 {
			t.Fatalf("%s belongs to group %d", path, st.Gid)
		}
	}
	w.release(id, "a")
}

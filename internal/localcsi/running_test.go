package localcsi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
)

// What a copier does in its steps while writers go on.
const (
	stepFollowed = "copy: writes are followed"
	stepPass     = "copy: pass made"
	stepFrozen   = "copy: frozen"
	stepCopied   = "copy: copied while frozen"
)

const page = 4096

// overwriter writes over blocks of one file at random, one after the other, each full of the number of its write, and
// each on disk before the next is begun.
type overwriter struct {
	blocks int64
	acked  atomic.Uint64
	wrote  []int64 // the block of each write, from the second on
	stop   chan struct{}
	done   chan error
}

func startOverwriter(path string, blocks int64) *overwriter {
	o := &overwriter{blocks: blocks, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { o.done <- o.run(path) }()
	return o
}

func (o *overwriter) run(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_DSYNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(o.blocks * page); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(o.blocks), 1))
	for n := uint64(1); ; n++ {
		select {
		case <-o.stop:
			return nil
		default:
		}
		at := r.Int64N(o.blocks)
		if _, err := f.WriteAt(bytes.Repeat(binary.BigEndian.AppendUint64(nil, n), page/8), at*page); err != nil {
			return err
		}
		o.wrote = append(o.wrote, at)
		o.acked.Store(n)
	}
}

// goesOn waits until so many more writes were made.
func (o *overwriter) goesOn(t *testing.T, more uint64) {
	t.Helper()
	for from, end := o.acked.Load(), time.Now().Add(time.Minute); o.acked.Load() < from+more; {
		if time.Now().After(end) {
			t.Error("the writer does not go on")
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (o *overwriter) end(t *testing.T) {
	t.Helper()
	close(o.stop)
	if err := <-o.done; err != nil {
		t.Fatal(err)
	}
}

// wantMoment asserts that a copy of the file is as it was between two writes: all up to some number are in it, and none
// that came later. It is called when the writer has ended.
func (o *overwriter) wantMoment(t *testing.T, path string, least, most uint64) {
	t.Helper()
	text := must2(os.ReadFile(path))(t)
	last, has := uint64(0), make([]uint64, o.blocks)
	for n := range has {
		block := text[n*page : (n+1)*page]
		has[n] = binary.BigEndian.Uint64(block)
		if !bytes.Equal(block, bytes.Repeat(block[:8], page/8)) {
			t.Fatalf("block %d is of two writes", n)
		}
		last = max(last, has[n])
	}
	if last < least || last > most {
		t.Fatalf("the copy is as of write %d, want %d to %d", last, least, most)
	}
	want := make([]uint64, o.blocks)
	for n, at := range o.wrote[:last] {
		want[at] = uint64(n) + 1
	}
	for n := range want {
		if has[n] != want[n] {
			t.Fatalf("the copy is as of write %d; its block %d is of write %d, it was last written by %d", last, n,
				has[n], want[n])
		}
	}
}

// rewrite makes the file at path hold other n bytes than before.
func rewrite(t *testing.T, path string, n int64) {
	t.Helper()
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, 0, err)
	defer f.Close()
	must2(f.Write(data))(t)
	must(t, 0, f.Sync())
}

// Given a volume whose writers go on while it is copied, overwriting what was copied, making and removing files, and
// with files that are removed and their blocks discarded, when it is snapshotted, then writers are stopped at the end
// alone, and the snapshot is as of that moment: every write before it is in it, none after it, and its file system is
// in order.
func TestAVolumeIsCopiedWhileItsWritersGoOn(t *testing.T) {
	t.Parallel()
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) { copiedWhileWritten(t, fs) })
	}
}

func copiedWhileWritten(t *testing.T, fs string) {
	var o *overwriter
	var at string
	var passes int
	var least, most uint64
	w := newWorld(t, "", func(c *Config) {
		c.FreezeLimit = maxFreezeLimit // a busy machine takes its time
		c.step = func(name string) {
			switch name {
			case stepPass:
				o.goesOn(t, 5)
				if passes++; passes == 1 {
					rewrite(t, filepath.Join(at, "much"), 40*mib)
					must(t, 0, os.Remove(filepath.Join(at, "gone")))
					trim(t, at)
				}
			case stepFrozen:
				least = o.acked.Load()
			case stepCopied:
				most = o.acked.Load() + 1 // one may be on its way, and finished or not
			}
		}
	})
	c := mountCap(fs, single)
	id := w.create(createReq("db", 512*mib, c))
	at = w.use(id, "a", c, false)
	writeFile(t, filepath.Join(at, "filler"), strings.Repeat("filler\n", 8<<20))
	rewrite(t, filepath.Join(at, "much"), 41*mib)
	rewrite(t, filepath.Join(at, "gone"), 30*mib)
	stopChurn := startChurn(t, at)
	o = startOverwriter(filepath.Join(at, "blocks"), 4000)
	o.goesOn(t, 20)
	sid := w.snap("s", id)
	o.goesOn(t, 20)
	o.end(t)
	stopChurn()
	if passes < 2 {
		t.Errorf("of %d MiB that were written meanwhile nothing was copied before the writers were stopped", 40)
	}
	clone := w.create(fromSnapshot(createReq("copy", 512*mib, c), sid))
	wantSound(t, w.image(clone), fs)
	to := w.use(clone, "b", c, false)
	o.wantMoment(t, filepath.Join(to, "blocks"), least, most)
	wantChurn(t, to)
	a := must2(os.ReadFile(filepath.Join(at, "much")))(t)
	if b := must2(os.ReadFile(filepath.Join(to, "much")))(t); !bytes.Equal(a, b) {
		t.Error("what was written between two passes differs in the copy")
	}
	if left, _ := filepath.Glob(filepath.Join(to, "gone")); len(left) > 0 {
		t.Error("a file that was removed between two passes is in the copy")
	}
	w.release(id, "a")
	w.release(clone, "b")
	w.dropSnap(sid)
	w.nothingLeft()
}

func trim(t *testing.T, dir string) {
	t.Helper()
	f := must2(os.Open(dir))(t)
	defer f.Close()
	const fiTrim = 0xC0185879
	all := [3]uint64{0, 1 << 62, 0} // from, length, least length
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiTrim, uintptr(unsafe.Pointer(&all))); no != 0 {
		t.Error(no)
	}
}

// discarded is how many bytes of the device that is mounted at dir were discarded so far.
func discarded(t *testing.T, dir string) int64 {
	t.Helper()
	n := must2(mount.At(dir))(t)
	stat := must2(os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", n.Major, n.Minor)))(t)
	return must2(strconv.ParseInt(strings.Fields(string(stat))[13], 10, 64))(t) * 512
}

// Given a volume that is being copied while it is mounted, when others want to publish it elsewhere, then they need not
// wait; when it is unmounted, mounted again, or enlarged meanwhile, then nothing is kept, the caller is asked to call
// again, and the next call makes the snapshot.
func TestNobodyWaitsForACopy(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(w *world, id string, c *csi.VolumeCapability){
		"unmounted": func(w *world, id string, _ *csi.VolumeCapability) {
			w.unpublish(id, "a")
			w.unstage(id)
		},
		"mounted again": func(w *world, id string, c *csi.VolumeCapability) {
			w.unpublish(id, "a")
			w.unstage(id)
			w.use(id, "a", c, false)
		},
		"enlarged": func(w *world, id string, _ *csi.VolumeCapability) {
			must2(w.ctl.ControllerExpandVolume(w.ctx(), &csi.ControllerExpandVolumeRequest{
				VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 128 * mib},
			}))(w.t)
		},
		"deleted": func(w *world, id string, _ *csi.VolumeCapability) {
			w.release(id, "a")
		},
		"published": func(w *world, id string, c *csi.VolumeCapability) {
			must2(w.tryPublish(id, "b", c, true))(w.t)
			w.unpublish(id, "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			var meanwhile func()
			w := newWorld(t, "", func(c *Config) {
				c.FreezeLimit = maxFreezeLimit
				c.step = func(name string) {
					if name == stepPass {
						once.Do(meanwhile)
					}
				}
			})
			c := mountCap("ext4", multi)
			id := w.create(createReq("db", 64*mib, c))
			w.use(id, "a", c, false)
			meanwhile = func() { act(w, id, c) }
			_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			switch name {
			case "published":
				must(t, 0, err)
			case "deleted":
				wantCode(t, err, codes.NotFound)
			default:
				if text := wantCode(t, err, codes.Aborted); !strings.Contains(text, "call again") {
					t.Errorf("it says: %s", text)
				}
			}
			if left := must2(os.ReadDir(filepath.Join(w.cfg.DataDir, "making")))(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if name == "deleted" {
				return
			}
			w.dropSnap(w.snap("s", id))
			w.unpublish(id, "a")
			w.unstage(id)
			w.remove(id)
			w.nothingLeft()
		})
	}
}

// Given a disk that is filled while a volume in use is copied, in the first pass or in a later one, then the snapshot
// is refused for want of capacity, nothing of it stays, and the writers go on.
func TestADiskThatFillsUpDuringACopy(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"in the first pass": stepFollowed, "in a later pass": stepPass} {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			disk := filepath.Join(t.TempDir(), "store")
			must(t, 0, os.Mkdir(disk, 0o700))
			must(t, 0, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=160m"))
			t.Cleanup(func() { must(t, 0, unix.Unmount(disk, unix.MNT_DETACH)) })
			var once sync.Once
			var meanwhile func()
			w := newWorld(t, filepath.Join(disk, "data"), func(c *Config) {
				c.FreezeLimit = maxFreezeLimit
				c.step = func(name string) {
					if name == step {
						once.Do(meanwhile)
					}
				}
			})
			c := mountCap("ext4", single)
			id := w.create(createReq("db", 64*mib, c))
			at := w.use(id, "a", c, false)
			rewrite(t, filepath.Join(at, "data"), 20*mib)
			ballast := filepath.Join(disk, "ballast")
			meanwhile = func() {
				if step == stepPass { // in the other step writers are stopped
					rewrite(t, filepath.Join(at, "more"), 20*mib)
				}
				var free unix.Statfs_t
				must(t, 0, unix.Statfs(disk, &free))
				f := must2(os.Create(ballast))(t)
				must(t, 0, unix.Fallocate(int(f.Fd()), 0, 0, int64(free.Bavail)*free.Bsize-4*mib))
				must(t, 0, f.Close())
			}
			_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			wantCode(t, err, codes.ResourceExhausted)
			for _, dir := range []string{"making", "frozen"} {
				if left := must2(os.ReadDir(filepath.Join(w.cfg.DataDir, dir)))(t); len(left) > 0 {
					t.Errorf("left behind in %s: %v", dir, left)
				}
			}
			must(t, 0, os.Remove(ballast))
			rewrite(t, filepath.Join(at, "data"), 21*mib)
			w.dropSnap(w.snap("s", id))
			w.release(id, "a")
			w.nothingLeft()
		})
	}
}

// Given a kernel that does not count what is written to a device, when a volume in use is to be copied, then its
// writers are stopped for the whole copy where that is short, and where it is not the refusal says why and the way out.
func TestWhereWritesCannotBeFollowed(t *testing.T) {
	t.Parallel()
	var froze atomic.Int32
	w := newWorld(t, storeOn(t, 8*gib, "mkfs.xfs", "-q", "-m", "reflink=0"), func(c *Config) {
		c.step = func(name string) {
			if name == stepFrozen {
				froze.Add(1)
			}
			if name == stepPass {
				t.Error("a pass was made")
			}
		}
	})
	c := mountCap("ext4", single)
	id := w.create(createReq("big", 3*gib, c))
	at := w.use(id, "a", c, false)
	n := must2(mount.At(w.stagingPath(id)))(t).Minor
	counts := fmt.Sprintf("/sys/block/%s/queue/iostats", filepath.Base(loop.Path(int(n))))
	must(t, 0, os.WriteFile(counts, []byte("0"), 0))
	count := sync.OnceFunc(func() { must(t, 0, os.WriteFile(counts, []byte("1"), 0)) })
	t.Cleanup(count)
	writeFile(t, filepath.Join(at, "f"), "data")
	w.dropSnap(w.snap("s", id))
	if froze.Load() != 1 {
		t.Errorf("it was frozen %d times for its copy", froze.Load())
	}
	f := must2(os.OpenFile(w.image(id), os.O_RDWR, 0))(t)
	must(t, 0, unix.Fallocate(int(f.Fd()), 0, 0, 3*gib))
	must(t, 0, f.Close())
	_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	text := wantCode(t, err, codes.FailedPrecondition)
	for _, part := range []string{"reflinks", "--freeze-limit", "iostats"} {
		if !strings.Contains(text, part) {
			t.Errorf("the refusal does not say %q: %s", part, text)
		}
	}
	if froze.Load() != 1 {
		t.Error("the writers were stopped for a copy that is refused")
	}
	count() // before others get the device
	w.release(id, "a")
	w.nothingLeft()
}

// Given a volume of which more is written during each pass than can be copied while the writers are stopped, when it is
// to be copied, then that is refused by name, with the way out; the writers are not stopped for it.
func TestAVolumeThatIsWrittenFasterThanCopied(t *testing.T) {
	t.Parallel()
	var at string
	store := storeOn(t, 16*gib, "mkfs.xfs", "-q", "-m", "reflink=0")
	w := newWorld(t, store, func(c *Config) {
		c.FreezeLimit = time.Second
		c.step = func(name string) {
			switch name {
			case stepPass:
				// All that is free is written, as far as a device knows. It is so some time after the call.
				before := discarded(t, at)
				trim(t, at)
				for end := time.Now().Add(time.Minute); discarded(t, at) < before+5*gib; {
					if time.Now().After(end) {
						t.Error("what is free is not discarded")
						return
					}
					time.Sleep(time.Millisecond)
				}
			case stepFrozen:
				t.Error("the writers were stopped")
			}
		}
	})
	c := mountCap("xfs", single)
	id := w.create(createReq("large", 8*gib, c))
	at = w.use(id, "a", c, false)
	_, err := w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	text := wantCode(t, err, codes.FailedPrecondition)
	for _, part := range []string{"written faster", "stop the writers", "--freeze-limit"} {
		if !strings.Contains(text, part) {
			t.Errorf("the refusal does not say %q: %s", part, text)
		}
	}
	w.release(id, "a")
	w.nothingLeft()
}

// Given a plugin that is killed in a later pass of a copy, or while the writers are stopped at its end, when it is
// started again, then the writers go on, and the caller that calls again has a snapshot of one moment.
func TestKilledInALaterPass(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills a plugin for many seconds: not in a short run")
	}
	for _, kill := range []order{
		{KillAt: stepFollowed, KillOn: 1}, {KillAt: stepPass, KillOn: 1}, {KillAt: stepPass, KillOn: 2},
		{KillAt: stepFrozen, KillOn: 1}, {KillAt: stepCopied, KillOn: 1},
	} {
		t.Run(fmt.Sprintf("%s/%d", kill.KillAt, kill.KillOn), func(t *testing.T) {
			w := newCrashWorld(t, "")
			w.run(kill)
			c := mountCap("ext4", multi)
			id := w.create(createReq("db", 256*mib, c))
			at := w.use(id, "a", c, false)
			o := startOverwriter(filepath.Join(at, "blocks"), 2000)
			quit, stopped := make(chan struct{}), make(chan struct{})
			go func() { // so much that there is a second pass, most times
				defer close(stopped)
				for n := int64(0); ; n++ {
					select {
					case <-quit:
						return
					default:
						rewrite(t, filepath.Join(at, "much"), 40*mib+n%7)
					}
				}
			}()
			end := sync.OnceFunc(func() { close(quit); <-stopped })
			defer end()
			o.goesOn(t, 20)
			var least, most uint64
			var sid string
			w.again = func() {
				if w.kills == 0 {
					return // its end is not seen yet
				}
				least = o.acked.Load()
				o.goesOn(t, 20) // it would not if a dead plugin's freeze had stayed
			}
			for try := 0; w.kills == 0 && try < 20; try++ {
				if sid != "" {
					w.dropSnap(sid)
				}
				w.call("snapshot", func(ctx context.Context) error {
					r, err := w.ctl.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
					sid = r.GetSnapshot().GetSnapshotId()
					return err
				})
				most = o.acked.Load() + 1
			}
			if w.kills != 1 {
				t.Fatalf("the plugin was killed %d times", w.kills)
			}
			end()
			o.end(t)
			clone := w.create(fromSnapshot(createReq("copy", 256*mib, c), sid))
			wantSound(t, w.image(clone), "ext4")
			o.wantMoment(t, filepath.Join(w.use(clone, "b", c, false), "blocks"), least, most)
			w.release(id, "a")
			w.release(clone, "b")
			w.dropSnap(sid)
			w.clean()
			w.kill()
		})
	}
}

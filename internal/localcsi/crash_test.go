package localcsi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/store"
)

// crashWorld is a world whose plugin is a process that dies and is started again.
type crashWorld struct {
	*world
	cmd   *exec.Cmd
	died  chan error
	kills int
	own   bool   // in a mount namespace of its own
	again func() // before a call is repeated; nil: nothing
}

func newCrashWorld(t *testing.T, dir string) *crashWorld {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	if dir == "" {
		dir = filepath.Join(base, "data")
	}
	w := &crashWorld{world: &world{t: t, base: base, cfg: Config{
		Endpoint: "unix://" + filepath.Join(base, "csi.sock"), DataDir: dir, NodeID: testNode,
	}}}
	t.Cleanup(w.world.cleanUp)
	t.Cleanup(w.kill)
	return w
}

func (w *crashWorld) run(o order) {
	w.t.Helper()
	for {
		cmd, died := w.spawn(o, w.own), make(chan error, 1)
		go func() { died <- cmd.Wait() }()
		w.cmd, w.died = cmd, died
		for !w.listening() {
			select {
			case err := <-died:
				died <- err
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
		select {
		case <-died:
			w.kills++ // killed while it started
			continue
		default:
			w.dial()
			return
		}
	}
}

func (w *crashWorld) listening() bool {
	_, err := os.Stat(w.socket())
	return err == nil
}

func (w *crashWorld) kill() {
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	<-w.died
	w.cmd = nil
	w.conn.Close()
}

// call repeats a call until it succeeds, starting the plugin again whenever it died.
func (w *crashWorld) call(name string, fn func(context.Context) error) {
	w.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := fn(ctx)
		cancel()
		if err == nil {
			return
		}
		if c := status.Code(err); c != codes.Unavailable && c != codes.Aborted || time.Now().After(deadline) {
			w.t.Fatalf("%s: %v", name, err)
		}
		select {
		case <-w.died:
			w.kills++
			w.conn.Close()
			w.run(order{})
		case <-time.After(2 * time.Millisecond):
		}
		if w.again != nil {
			w.again()
		}
	}
}

// everything is all that happens to volumes, as a caller that never gives up sees it.
func (w *crashWorld) everything(fs string) {
	t := w.t
	c, raw := mountCap(fs, multi), blockCap(multi)
	size := 32 * mib
	if fs == "xfs" {
		size = 300 * mib
	}
	create := func(req *csi.CreateVolumeRequest) (id string) {
		w.call("create "+req.GetName(), func(ctx context.Context) error {
			r, err := w.ctl.CreateVolume(ctx, req)
			id = r.GetVolume().GetVolumeId()
			return err
		})
		return id
	}
	db := create(createReq("db", size, c))
	w.callStage(db, c)
	at := w.callPublish(db, "a", c, false)
	writeFile(t, filepath.Join(at, "f"), "data")
	ro := w.callPublish(db, "r", c, true)
	wantFile(t, filepath.Join(ro, "f"), "data")
	var snap string
	w.call("snapshot", func(ctx context.Context) error {
		r, err := w.ctl.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: db})
		snap = r.GetSnapshot().GetSnapshotId()
		return err
	})
	writeFile(t, filepath.Join(at, "g"), "not frozen") // hangs for ever if a dead plugin's freeze had stayed
	clone := create(fromSnapshot(createReq("clone", size+16*mib, c), snap))
	w.callStage(clone, c)
	wantFile(t, filepath.Join(w.callPublish(clone, "c", c, false), "f"), "data")
	w.call("expand", func(ctx context.Context) error {
		r, err := w.ctl.ControllerExpandVolume(ctx,
			&csi.ControllerExpandVolumeRequest{
				VolumeId:      db,
				CapacityRange: &csi.CapacityRange{RequiredBytes: size + 32*mib},
			})
		if err == nil && r.GetCapacityBytes() != size+32*mib {
			t.Fatalf("expanded to %d", r.GetCapacityBytes())
		}
		return err
	})

	both := create(createReq("both", size, c, raw))
	w.callStage(both, raw)
	w.callPublish(both, "dev", raw, false)
	w.callPublish(both, "devro", raw, true)
	for _, name := range []string{"devro", "dev"} {
		w.callUnpublish(both, name)
	}
	w.callUnstage(both)
	w.callStage(both, c) // formats
	for id, names := range map[string][]string{db: {"a", "r"}, clone: {"c"}} {
		for _, name := range names {
			w.callUnpublish(id, name)
		}
	}
	for _, id := range []string{both, db, clone} {
		w.callUnstage(id)
		w.call("delete", func(ctx context.Context) error {
			_, err := w.ctl.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		})
	}
	w.call("delete snapshot", func(ctx context.Context) error {
		_, err := w.ctl.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snap})
		return err
	})
}

func (w *crashWorld) callStage(id string, c *csi.VolumeCapability) {
	w.t.Helper()
	w.call("stage", func(ctx context.Context) error {
		_, err := w.node.NodeStageVolume(ctx,
			&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id), VolumeCapability: c})
		return err
	})
}

func (w *crashWorld) callPublish(id, name string, c *csi.VolumeCapability, ro bool) string {
	w.t.Helper()
	path := w.targetPath(id, name)
	w.call("publish", func(ctx context.Context) error {
		_, err := w.node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId:          id,
			StagingTargetPath: w.stagingPath(id),
			TargetPath:        path,
			VolumeCapability:  c,
			Readonly:          ro,
		})
		return err
	})
	return path
}

func (w *crashWorld) callUnpublish(id, name string) {
	w.t.Helper()
	w.call("unpublish", func(ctx context.Context) error {
		_, err := w.node.NodeUnpublishVolume(ctx,
			&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: w.targetPath(id, name)})
		return err
	})
}

func (w *crashWorld) callUnstage(id string) {
	w.t.Helper()
	w.call("unstage", func(ctx context.Context) error {
		_, err := w.node.NodeUnstageVolume(ctx,
			&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: w.stagingPath(id)})
		return err
	})
}

// clean asserts that after the run nothing is left: no file, no mount, no loop device, no target.
func (w *crashWorld) clean() {
	w.t.Helper()
	w.nothingLeft()
	if left, _ := filepath.Glob(filepath.Join(w.base, "pods", "*")); len(left) > 0 {
		w.t.Fatalf("targets are left: %v", left)
	}
	if found := w.sweep(); len(found) > 0 {
		w.t.Fatalf("left behind: %v", found)
	}
}

// steps runs everything without a kill and reports which steps it went through, and how often.
func steps(t *testing.T, fs string) map[string]int {
	t.Helper()
	w := newCrashWorld(t, "")
	trace := filepath.Join(w.base, "trace")
	w.run(order{Trace: trace})
	w.everything(fs)
	w.clean()
	count := map[string]int{}
	for line := range strings.Lines(string(must2(os.ReadFile(trace))(t))) {
		count[strings.TrimSpace(line)]++
	}
	if len(count) < 24 {
		t.Fatalf("only %d steps were seen: %v", len(count), count)
	}
	return count
}

// A plugin that is killed between any two steps of any change is started again, the caller repeats its call, and in the
// end nothing is left.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills a plugin for many seconds: not in a short run")
	}
	needRoot(t)
	count := steps(t, "ext4")
	names := []string{}
	for name := range count {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for on := 1; on <= count[name]; on++ {
			t.Run(fmt.Sprintf("%s/%d", name, on), func(t *testing.T) {
				t.Parallel()
				w := newCrashWorld(t, "")
				w.run(order{KillAt: name, KillOn: on})
				w.everything("ext4")
				if w.kills != 1 {
					t.Fatalf("the plugin was killed %d times", w.kills)
				}
				w.clean()
				w.kill()
			})
		}
	}
}

// The same by chance: killed again and again at random moments.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills a plugin for many seconds: not in a short run")
	}
	rounds := 12
	for _, fs := range []string{"ext4", "xfs"} {
		for round := range rounds {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s/%d", fs, round), func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d", seed)
				r := rand.New(rand.NewPCG(seed, 0))
				w := newCrashWorld(t, "")
				w.run(order{})
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for range 6 {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(10+r.IntN(60)) * time.Millisecond):
							killByData(w.cfg.DataDir)
						}
					}
				}()
				w.everything(fs)
				close(stop)
				<-stopped
				t.Logf("killed %d times", w.kills)
				w.clean()
			})
		}
	}
}

// killByData kills the child that works on dir: the random killer does not share the world's fields with the caller.
func killByData(dir string) {
	pids, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range pids {
		env, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(env, []byte(childEnv+"=")) || !bytes.Contains(env, []byte(`"`+dir+`"`)) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(p, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// A caller that is gone for good asks nothing again: after a restart the half-done is undone, and what the plugin was
// asked to hold can be released by its id alone.
func TestKilledAndAbandoned(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills a plugin for many seconds: not in a short run")
	}
	needRoot(t)
	count := steps(t, "ext4")
	for name := range count {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCrashWorld(t, "")
			w.run(order{KillAt: name, KillOn: 1})
			w.untilError()
			w.kill()
			w.run(order{})
			for _, dir := range []string{"making", "trash", "frozen"} {
				if left, _ := os.ReadDir(filepath.Join(w.cfg.DataDir, dir)); len(left) > 0 {
					t.Fatalf("%s is not empty after the start: %v", dir, left)
				}
			}
			w.wantNoStrayLoops()
			targets, _ := filepath.Glob(filepath.Join(w.base, "pods", "*"))
			for _, path := range targets {
				if is, err := mount.IsPoint(path); err != nil || !is {
					t.Fatalf("target %s was left by a publish that never ended (%v)", path, err)
				}
			}
			w.letEverythingGo()
			w.clean()
		})
	}
}

// untilError does what a caller does that ends at the first error.
func (w *crashWorld) untilError() {
	died := errors.New("died")
	try := func(err error) {
		if err != nil {
			panic(died)
		}
	}
	defer func() {
		if v := recover(); v != nil && v != died { //nolint:errorlint // what was thrown, and not what wraps it
			panic(v)
		}
	}()
	c, raw := mountCap("ext4", multi), blockCap(multi)
	vol := func(req *csi.CreateVolumeRequest) string {
		r, err := w.ctl.CreateVolume(w.ctx(), req)
		try(err)
		return r.GetVolume().GetVolumeId()
	}
	db := vol(createReq("db", 32*mib, c))
	try(w.tryStage(db, c))
	_, err := w.tryPublish(db, "a", c, false)
	try(err)
	_, err = w.ctl.CreateSnapshot(w.ctx(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: db})
	try(err)
	vol(fromVolume(createReq("clone", 32*mib, c), db))
	_, err = w.ctl.ControllerExpandVolume(w.ctx(),
		&csi.ControllerExpandVolumeRequest{VolumeId: db, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * mib}})
	try(err)
	both := vol(createReq("both", 32*mib, c, raw))
	try(w.tryStage(both, raw))
	for _, name := range []string{"dev", "devro"} {
		_, err = w.tryPublish(both, name, raw, name == "devro")
		try(err)
		_, err = w.node.NodeUnpublishVolume(w.ctx(),
			&csi.NodeUnpublishVolumeRequest{VolumeId: both, TargetPath: w.targetPath(both, name)})
		try(err)
	}
	_, err = w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: both, StagingTargetPath: w.stagingPath(both)})
	try(err)
	try(w.tryStage(both, c))
	_, err = w.node.NodeUnstageVolume(w.ctx(),
		&csi.NodeUnstageVolumeRequest{VolumeId: both, StagingTargetPath: w.stagingPath(both)})
	try(err)
	_, err = w.ctl.DeleteVolume(w.ctx(), &csi.DeleteVolumeRequest{VolumeId: both})
	try(err)
}

// wantNoStrayLoops asserts that every loop device is mounted, or staged as a device.
func (w *crashWorld) wantNoStrayLoops() {
	w.t.Helper()
	table := must2(mount.LoopTable(loop.Major))(w.t)
	for _, d := range w.ourLoops() {
		_, key, _ := strings.Cut(strings.TrimPrefix(d.Label, "berth/"), "/")
		var u store.Usage
		_ = store.ReadJSON(filepath.Join(w.cfg.DataDir, "usage", key+".json"), &u)
		if len(table[d.Number]) == 0 && (u.Staging == nil || u.Staging.Loop != d.Number) {
			w.t.Fatalf("loop device %d is bound to volume %s and nobody uses it", d.Number, key)
		}
	}
}

func (w *crashWorld) letEverythingGo() {
	for _, e := range must2(w.ctl.ListVolumes(w.ctx(), &csi.ListVolumesRequest{}))(w.t).GetEntries() {
		id := e.GetVolume().GetVolumeId()
		for _, name := range []string{"a", "dev", "devro"} {
			w.unpublish(id, name)
		}
		w.unstage(id)
		w.remove(id)
	}
	for _, e := range must2(w.ctl.ListSnapshots(w.ctx(), &csi.ListSnapshotsRequest{}))(w.t).GetEntries() {
		w.dropSnap(e.GetSnapshot().GetSnapshotId())
	}
}

// A plugin that is a task has a mount namespace of its own and shares its base directory. What it mounted is seen
// outside, outlives it, and is taken away by its successor in yet another namespace.
func TestOwnMountNamespace(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	w := newCrashWorld(t, "")
	if err := unix.Mount(w.base, w.base, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(w.base, 0); err != nil {
			t.Errorf("unmount the base: %v", err)
		}
	})
	if err := unix.Mount("", w.base, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.world.cleanUp)
	t.Cleanup(w.kill)
	w.own = true
	w.run(order{})
	c := mountCap("ext4", multi)
	id := w.create(createReq("db", 32*mib, c))
	at := w.use(id, "a", c, false)
	writeFile(t, filepath.Join(at, "f"), "from outside")
	w.kill()
	wantFile(t, filepath.Join(at, "f"), "from outside")
	w.run(order{})
	wantFile(t, filepath.Join(must2(w.tryPublish(id, "b", c, true))(t), "f"), "from outside")
	w.unpublish(id, "b")
	w.release(id, "a")
	w.clean()
}

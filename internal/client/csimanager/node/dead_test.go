package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/alive"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// served gives a volume of the fake plugin a file system of its own, and returns where it is.
func served(t *testing.T, p *csitest.Plugin, v csi.Volume) string {
	t.Helper()
	path := filepath.Join(p.Dir, "volumes", ids.Segment(v.ID))
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	return path
}

// readOnly makes a file system read-only, or writable again, wherever it is mounted.
func readOnly(t *testing.T, path string, is bool) {
	t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if is {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("", path, "", flags, ""); err != nil {
		t.Fatal(err)
	}
}

// startsAgain asks whether a task of an alloc that has ended may start again on its volume.
func (r *rig) startsAgain(v csi.Volume, alloc string) error {
	r.t.Helper()
	return r.keeper.Mounted(r.t.Context(), requestOf(r.p, use(v, alloc)).Key, true)
}

// hearsOfLoss waits until an alloc's volume is reported as lost.
func (r *rig) hearsOfLoss(alloc string) {
	r.t.Helper()
	select {
	case got := <-r.lost:
		if got != alloc+" data" {
			r.t.Errorf("reported %q as lost", got)
		}
	case <-time.After(time.Minute):
		r.t.Fatal("it is not reported that the volume is lost")
	}
}

// TestADeadFileSystemIsMountedAnew: given a volume whose file system became read-only under its task, when the task has
// ended, then it does not start again on it: the staging is undone and made anew, and only then the task starts.
func TestADeadFileSystemIsMountedAnew(t *testing.T) {
	p, v := startPlugin(t)
	at := served(t, p, v)
	r := newRig(t, p)
	r.mount(v, "a")
	if err := r.startsAgain(v, "a"); err != nil {
		t.Fatalf("all is well, and a task does not start again: %v", err)
	}
	r.gate.set(func(g *gate) { g.live["a"] = true })
	readOnly(t, at, true)
	err := r.startsAgain(v, "a")
	if !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "its file system has become read-only") {
		t.Fatalf("a task would start on a read-only file system: %v", err)
	}
	r.hearsOfLoss("a")
	eventually(t, "the servers know why", func() bool {
		e := r.servers.Entries()
		return len(e) == 1 && strings.Contains(e[0].LastError, "its file system has become read-only")
	})
	p.Mark(proxy.MountsLost, proxy.Entry{})
	readOnly(t, at, false)
	r.gate.set(func(g *gate) { g.idle["a"] = true })
	r.mount(v, "a")
	const anew = "NodeUnpublishVolume NodeUnstageVolume NodeStageVolume NodePublishVolume"
	if calls := strings.Join(p.Calls(), " "); !strings.HasSuffix(calls, anew) {
		t.Errorf("calls: %s", calls)
	}
	if err := r.startsAgain(v, "a"); err != nil {
		t.Errorf("mounted anew, and a task does not start: %v", err)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestAFileSystemThatGivesNoAnswerIsAskedAgain: given a file system that does not answer, then no task starts on it,
// and nothing is given up; when it answers, the task starts.
func TestAFileSystemThatGivesNoAnswerIsAskedAgain(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	r.dead = func() (string, error) { return "", errors.New("it took too long and was killed") }
	if err := r.startsAgain(v, "a"); !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a task would start on a file system that hangs: %v", err)
	}
	r.dead = func() (string, error) { return "", nil }
	if err := r.startsAgain(v, "a"); err != nil {
		t.Errorf("it answers, and a task does not start: %v", err)
	}
	if n := len(r.lost); n != 0 {
		t.Errorf("%d losses are reported", n)
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestWhatIsFoundDeadIsLookedAtAtOnce: given a volume whose file system is found dead, then its keeper looks at it:
// neither the servers nor the mount table have to say anything for it to be undone.
func TestWhatIsFoundDeadIsLookedAtAtOnce(t *testing.T) {
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a")
	eventually(t, "the mount is written", func() bool { return !r.keeper.Dirty() })
	r.kill()
	r.byHand = true
	r.open()
	if err := r.startsAgain(v, "a"); err != nil {
		t.Fatalf("all is well, and a task does not start again: %v", err)
	}
	if marked := r.keeper.Marked(); len(marked) > 0 {
		t.Fatalf("all is well, and %v is looked at", marked)
	}
	r.dead = func() (string, error) { return "its file system answers: input/output error", nil }
	if err := r.startsAgain(v, "a"); !fault.Has(err, fault.NotReady) {
		t.Errorf("a task would start on a dead file system: %v", err)
	}
	want := requestOf(p, use(v, "a")).Key.StagingKey
	if marked := r.keeper.Marked(); !slices.Equal(marked, []volume.StagingKey{want}) {
		t.Errorf("%v is looked at, not %v", marked, want)
	}
	r.kill()
	r.byHand = false
	r.dead = nil
	r.open()
	r.unmount(v, "a")
	r.atRest()
}

// TestALateWordOfADeadFileSystemEndsNothing: given an answer about a file system that was unmounted, or mounted anew,
// while it was asked, then nothing of what is there now is given up.
func TestALateWordOfADeadFileSystemEndsNothing(t *testing.T) {
	for name, meanwhile := range map[string]func(r *rig, v csi.Volume){
		"unmounted": func(r *rig, v csi.Volume) { r.unmount(v, "a") },
		"mounted anew": func(r *rig, v csi.Volume) {
			r.unmount(v, "a")
			r.mount(v, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := startPlugin(t)
			r := newRig(t, p)
			r.mount(v, "a")
			r.dead = func() (string, error) {
				meanwhile(r, v)
				return "its file system has become read-only", nil
			}
			_ = r.startsAgain(v, "a") // whatever is said of what was asked about
			if n := len(r.lost); n != 0 {
				t.Errorf("%d losses are reported", n)
			}
			r.dead = func() (string, error) { return "", nil }
			if name != "unmounted" {
				if err := r.startsAgain(v, "a"); err != nil {
					t.Errorf("a task does not start on what was mounted anew: %v", err)
				}
				r.unmount(v, "a")
			}
			r.atRest()
		})
	}
}

// TestADeadFileSystemIsLeftToThoseWhoUseIt: another alloc that reads it still is not disturbed; it is named as what is
// waited for, and when it has gone the volume is mounted anew.
func TestADeadFileSystemIsLeftToThoseWhoUseIt(t *testing.T) {
	p, v := startPlugin(t)
	at := served(t, p, v)
	r := newRig(t, p)
	r.mount(v, "a")
	r.mount(v, "b")
	r.gate.set(func(g *gate) {
		g.live["a"] = true
		g.live["b"] = true
		g.idle["a"] = true
	})
	p.Mark(proxy.MountsLost, proxy.Entry{})
	readOnly(t, at, true)
	if err := r.startsAgain(v, "a"); !fault.Has(err, fault.NotReady) {
		t.Fatalf("a task would start on a read-only file system: %v", err)
	}
	r.hearsOfLoss("a")
	eventually(t, "it is said who uses it", func() bool {
		e := r.servers.Entries()
		return len(e) == 1 && strings.HasSuffix(e[0].Step, "not used any more by b")
	})
	if calls := strings.Join(p.Calls(), " "); strings.Contains(calls, "Unstage") {
		t.Errorf("unstaged under a user: %s", calls)
	}
	select {
	case got := <-r.lost:
		t.Errorf("%q lost its volume, which it could still read", got)
	default:
	}
	readOnly(t, at, false)
	r.gate.set(func(g *gate) { delete(g.live, "b") })
	r.unmount(v, "b")
	r.mount(v, "a")
	if n := strings.Count(strings.Join(p.Calls(), " "), "NodeStageVolume"); n != 2 {
		t.Errorf("staged %d times", n)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// TestADeadFileSystemOutlivesTheAgent: what was found dead is not published from by the next agent run.
func TestADeadFileSystemOutlivesTheAgent(t *testing.T) {
	p, v := startPlugin(t)
	at := served(t, p, v)
	r := newRig(t, p)
	r.mount(v, "a")
	r.mount(v, "b")
	r.gate.set(func(g *gate) {
		g.live["a"] = true
		g.live["b"] = true
		g.idle["a"] = true
	})
	p.Mark(proxy.MountsLost, proxy.Entry{})
	readOnly(t, at, true)
	if err := r.startsAgain(v, "a"); !fault.Has(err, fault.NotReady) {
		t.Fatalf("a task would start on a read-only file system: %v", err)
	}
	eventually(t, "its publication is undone", func() bool { return strings.Contains(r.step(), "any more by b") })
	readOnly(t, at, false) // it would be hard to see that nothing is made from what looks well again
	r.kill()
	r.open()
	if err := r.mountBy(requestOf(p, use(v, "b"))); err != nil {
		t.Fatal(err)
	}
	g := requestOf(p, use(v, "a"))
	heard := make(chan string, 100)
	done := make(chan error, 1)
	go func() { done <- r.mountBy(withProgress(g, func(why string) { heard <- why })) }()
	for why := range heard {
		if strings.Contains(why, "any more by b") {
			break
		}
	}
	r.gate.set(func(g *gate) { delete(g.live, "b") })
	r.unmount(v, "b")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.gate.set(func(g *gate) { delete(g.live, "a") })
	r.unmount(v, "a")
	r.atRest()
}

// step is what was reported last that the one volume does or waits for.
func (r *rig) step() string {
	if e := r.servers.Entries(); len(e) == 1 {
		return e[0].Step
	}
	return ""
}

// TestAFileSystemWithoutItsProcessIsDead: the mount table shows nothing of it, only asking does.
func TestAFileSystemWithoutItsProcessIsDead(t *testing.T) {
	p, v := startPlugin(t)
	at := filepath.Join(p.Dir, "volumes", ids.Segment(v.ID))
	root, err := fs.NewLoopbackRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(at, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, p)
	r.mount(v, "a")
	if err := r.startsAgain(v, "a"); err != nil {
		t.Fatalf("all is well, and a task does not start again: %v", err)
	}
	m, _ := mustTable(t).At(at)
	var major, minor int
	if _, err := fmt.Sscanf(m.Device, "%d:%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	control := t.TempDir()
	if err := unix.Mount("fusectl", control, "fusectl", 0, ""); err != nil {
		t.Fatal(err)
	}
	abort := filepath.Join(control, fmt.Sprint(minor), "abort")
	if err := errors.Join(os.WriteFile(abort, []byte("1"), 0), unix.Unmount(control, 0)); err != nil {
		t.Fatal(err)
	}
	err = r.startsAgain(v, "a")
	if !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "transport endpoint is not connected") {
		t.Fatalf("a task would start on a file system without its process: %v", err)
	}
	r.hearsOfLoss("a")
	p.Mark(proxy.MountsLost, proxy.Entry{})
	for _, m := range mustTable(t).Beneath(r.base()) { // the fake plugin looks at what it unmounts, and fails
		if err := unix.Unmount(m.Path, 0); err != nil {
			t.Error(err)
		}
	}
	r.unmount(v, "a")
	r.atRest()
}

// TestADeadFileSystemIsSaidWhileItIsUsed: given a volume in use, when its file system becomes read-only, then it is
// said to be dead, with the way out, and nothing is given up; but no task starts on it for the first time.
func TestADeadFileSystemIsSaidWhileItIsUsed(t *testing.T) {
	p, v := startPlugin(t)
	at := served(t, p, v)
	r := newRig(t, p)
	key := requestOf(p, use(v, "a")).Key
	dead := func() map[volume.StagingKey]string {
		t.Helper()
		out, err := alive.Deaths(r.keeper)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	r.mount(v, "a")
	if got := dead(); len(got) > 0 {
		t.Errorf("all is well, and it says %q", got)
	}
	if err := r.keeper.Mounted(t.Context(), key, false); err != nil {
		t.Errorf("all is well, and no task starts: %v", err)
	}
	readOnly(t, at, true)
	got := dead()
	if why := got[key.StagingKey]; len(got) != 1 || !strings.Contains(why, "its file system has become read-only") ||
		!strings.Contains(why, "berth alloc restart") {
		t.Errorf("it is said to be dead: %q", got)
	}
	if list := r.keeper.Published(); len(list) != 1 {
		t.Errorf("it was given up while it is used: %+v", list)
	}
	if err := r.keeper.Mounted(t.Context(), key, false); !fault.Has(err, fault.NotReady) ||
		!strings.Contains(err.Error(), "it is to be mounted anew") {
		t.Errorf("a first task starts on it: %v", err)
	}
	r.hearsOfLoss("a")
	readOnly(t, at, false)
	r.mount(v, "a")
	if got := dead(); len(got) > 0 {
		t.Errorf("it is mounted anew, and it says %q", got)
	}
	r.unmount(v, "a")
	r.atRest()
}

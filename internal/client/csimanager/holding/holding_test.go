package holding

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/killable"
	"berth/internal/helperbin"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// device is a loop device with a file system.
type device struct {
	t   *testing.T
	dev string
	id  entry.Device
}

func newDevice(t *testing.T) *device {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, tool := range []string{"losetup", "mkfs.ext4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the machine has no " + tool)
		}
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", image)
	d := &device{t: t, dev: run(t, "losetup", "--find", "--show", image)}
	t.Cleanup(func() {
		if d.dev != "" {
			run(t, "losetup", "--detach", d.dev)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(d.dev, &st); err != nil {
		t.Fatal(err)
	}
	d.id.Device = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	d.id.Seq = hostfs.DeviceSeq(d.id.Device)
	return d
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// mount mounts the device for as long as the test takes, or until unmount.
func (d *device) mount() (path string, unmount func()) {
	d.t.Helper()
	path = d.t.TempDir()
	if err := unix.Mount(d.dev, path, "ext4", 0, ""); err != nil {
		d.t.Fatal(err)
	}
	mounted := true
	unmount = func() {
		d.t.Helper()
		if !mounted {
			return
		}
		if err := unix.Unmount(path, 0); err != nil {
			d.t.Fatal(err)
		}
		mounted = false
	}
	d.t.Cleanup(unmount)
	return path, unmount
}

// detach takes the image from the device.
func (d *device) detach() {
	d.t.Helper()
	run(d.t, "losetup", "--detach", d.dev)
	d.dev = ""
}

// holder starts a process that holds something until the test ends, or until end.
func holder(t *testing.T, cmd *exec.Cmd) (pid int, end func()) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// foreign is a process in a mount namespace of its own, which begins as a copy of ours.
func foreign() *exec.Cmd {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	return cmd
}

func finder() *Finder {
	return &Finder{Helpers: &killable.Helpers{Program: helperbin.Open, Path: helperbin.Path}}
}

func look(t *testing.T, d entry.Device, paths ...string) entry.Sighting {
	t.Helper()
	seen, err := finder().Look(t.Context(), d, paths...)
	if err != nil {
		t.Fatal(err)
	}
	if !seen.All {
		t.Errorf("not all were looked at: %+v", seen)
	}
	return seen
}

// of is what was found of a process.
func of(seen entry.Sighting, pid int) *volume.Holder {
	i := slices.IndexFunc(seen.Holders, func(h volume.Holder) bool { return h.PID == pid })
	if i < 0 {
		return nil
	}
	return &seen.Holders[i]
}

// TestAForeignMountNamespaceIsNamed: given a device that is mounted no more here, but in a namespace that was copied
// from ours, then it is held, and the process that keeps the namespace is named; when that has gone, the device is
// free.
func TestAForeignMountNamespaceIsNamed(t *testing.T) {
	d := newDevice(t)
	path, unmount := d.mount()
	cmd := foreign()
	pid, end := holder(t, cmd)
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		t.Fatal(err)
	}
	unmount()
	seen := look(t, d.id)
	h := of(seen, pid)
	if !seen.Held || h == nil || h.Command != "sleep" || h.Namespace != ns || !strings.Contains(h.How, path) {
		t.Fatalf("found %+v, want pid %d in %s", seen, pid, ns)
	}
	probed, err := finder().Free(t.Context(), d.id)
	if err != nil || !probed.Held || len(probed.Holders) > 0 {
		t.Errorf("a probe finds %+v, %v", probed, err)
	}
	reused := d.id
	reused.Seq++
	if seen := look(t, reused); seen.Held || len(seen.Holders) > 0 {
		t.Errorf("what has the number now is taken for what had it: %+v", seen)
	}
	end()
	for { // the kernel ends a namespace after its last process
		if seen := look(t, d.id); !seen.Held {
			break
		}
	}
}

// TestWhoUsesAMountIsNamed: by an open file, a working directory, a mapped file, and the open device itself.
func TestWhoUsesAMountIsNamed(t *testing.T) {
	d := newDevice(t)
	path, _ := d.mount()
	file := filepath.Join(path, "file")
	program := filepath.Join(path, "program")
	data, err := os.ReadFile("/bin/sleep")
	if err := errors.Join(err, os.WriteFile(file, []byte("x"), 0o600),
		os.WriteFile(program, data, 0o700)); err != nil { //nolint:gosec // a program is executed
		t.Fatal(err)
	}
	open := func(name string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		cmd.ExtraFiles = []*os.File{f}
		return cmd
	}
	for what, cmd := range map[string]*exec.Cmd{
		"a file is open":                   open(file),
		"the device is open":               open(d.dev),
		"its working directory is there":   {Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: path},
		"a file is mapped into its memory": exec.Command(program, "1000"),
	} {
		pid, end := holder(t, cmd)
		for _, f := range cmd.ExtraFiles {
			_ = f.Close()
		}
		if h := of(look(t, d.id, path), pid); h == nil || h.How != what || h.Namespace != "" {
			t.Errorf("%s: found %+v", what, h)
		}
		end()
	}
}

// TestWhatIsMountedWithoutADeviceIsHeldByPath: a file system of no device, and a directory of one that others use.
func TestWhatIsMountedWithoutADeviceIsHeldByPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	source, path := t.TempDir(), t.TempDir()
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	in := exec.Command("sleep", "1000")
	in.Dir = path
	beside := exec.Command("sleep", "1000")
	beside.Dir = source
	inside, endInside := holder(t, in)
	outside, _ := holder(t, beside)
	seen := look(t, entry.Device{}, path)
	if of(seen, inside) == nil || of(seen, outside) != nil || seen.Held {
		t.Errorf("found %+v, want %d and not %d", seen, inside, outside)
	}
	copied, endCopied := holder(t, foreign())
	if h := of(look(t, entry.Device{}, path), copied); h == nil || h.Namespace == "" {
		t.Errorf("a copy of the mount in another namespace is not named: %+v", h)
	}
	endInside()
	endCopied()
	if seen := look(t, entry.Device{}, path); of(seen, inside) != nil || of(seen, copied) != nil {
		t.Errorf("found %+v of nobody", seen)
	}
}

// TestAHolderIsKnownByItsControlGroup: whose alloc it is the node's tree of groups says.
func TestAHolderIsKnownByItsControlGroup(t *testing.T) {
	d := newDevice(t)
	_, unmount := d.mount()
	pid, _ := holder(t, foreign())
	unmount()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(data), "0::")
	want, _, _ = strings.Cut(want, "\n")
	f := finder()
	f.Alloc = func(group string) ids.Alloc {
		if group == want {
			return "mine"
		}
		return ""
	}
	seen, err := f.Look(t.Context(), d.id)
	if h := of(seen, pid); err != nil || h == nil || h.Alloc != "mine" {
		t.Errorf("found %+v, %v; its group is %q", seen, err, want)
	}
}

// TestADeviceWithNothingBehindItIsFree: the plugin has detached it.
func TestADeviceWithNothingBehindItIsFree(t *testing.T) {
	d := newDevice(t)
	d.detach()
	if seen := look(t, d.id); seen.Held {
		t.Errorf("%s is held by %+v", d.id.Device, seen.Holders)
	}
	if seen := look(t, entry.Device{Device: "7:1048000"}); seen.Held {
		t.Errorf("a device that does not exist is held by %+v", seen.Holders)
	}
}

// TestAProcessWritesNoMoreThanANameIntoWhatPeopleRead: it chooses its own name.
func TestAProcessWritesNoMoreThanANameIntoWhatPeopleRead(t *testing.T) {
	var seen entry.Sighting
	if err := finder().read(&seen, `holder 7 "a\x1b[2J\nb" "" "/g" "x"`); err != nil {
		t.Fatal(err)
	}
	if got := seen.Holders[0].Command; got != "a?[2J?b" {
		t.Errorf("%q", got)
	}
}

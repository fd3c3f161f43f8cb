package allocdir_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/port/hostfs"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// enclosed makes an alloc's directory with a file system of its own, which the test destroys or not.
func enclosed(t *testing.T, size int64) allocdir.Dir {
	t.Helper()
	needRoot(t)
	if err := allocdir.CanEnclose(); err != nil {
		t.Fatal(err)
	}
	d := allocdir.New(t.TempDir(), ids.Alloc(ids.New()))
	t.Cleanup(func() {
		if err := d.Destroy(); err != nil {
			t.Error(err)
		}
	})
	enclose(t, d, size)
	return d
}

func enclose(t *testing.T, d allocdir.Dir, size int64) {
	t.Helper()
	if err := d.Enclose(t.Context(), size, true); err != nil {
		t.Fatal(err)
	}
	if err := d.Build(); err != nil {
		t.Fatal(err)
	}
}

// mounts are how often something is mounted as the alloc's directory.
func mounts(t *testing.T, d allocdir.Dir) (n int) {
	t.Helper()
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table.Beneath(d.Path()) {
		if m.Path == d.Path() {
			n++
		}
	}
	return n
}

// image is what is left of an alloc's file system.
func image(t *testing.T, d allocdir.Dir) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(d.Path()), ".images", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// fill writes until there is no room, and returns how much there was.
func fill(t *testing.T, path string) (written int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte("x"), 64<<10)
	for {
		n, err := f.Write(block)
		written += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return written
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Given an alloc with a file system of its own, when root writes, then it gets what the group asks for, what is
// reserved for output, and little more.
func TestAFileSystemOfItsOwnHoldsWhatIsAskedFor(t *testing.T) {
	for _, size := range []int64{10 << 20, 300 << 20} {
		d := enclosed(t, size)
		if got := fill(t, filepath.Join(d.SharedDir(), "data/big")); got < size || got > size+size/8+(3<<20) {
			t.Errorf("of %d bytes it has %d", size, got)
		}
		u := used(t, d)
		if !u.Enclosed || u.Bytes < size {
			t.Errorf("it takes %+v", u)
		}
		if entries, err := os.ReadDir(d.Path()); err != nil || len(entries) != 1 {
			t.Errorf("beside what tasks share there is %v, %v", entries, err)
		}
	}
}

// Another agent finds it mounted; after a reboot it is mounted again, with what it has, also when the agent makes none
// any more.
func TestAFileSystemOfItsOwnIsKept(t *testing.T) {
	d := enclosed(t, 10<<20)
	file := filepath.Join(d.SharedDir(), "data/kept")
	write(t, file, "kept")
	enclose(t, d, 10<<20)
	if n := mounts(t, d); n != 1 {
		t.Fatalf("mounted %d times", n)
	}
	if err := unix.Unmount(d.Path(), 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Enclose(t.Context(), 10<<20, false); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" || mounts(t, d) != 1 {
		t.Errorf("%q, %v, mounted %d times", text, err, mounts(t, d))
	}
}

// Nothing of it is left when the alloc goes; what still uses it is named, and what is mounted within is never emptied.
func TestAFileSystemOfItsOwnGoesWithTheAlloc(t *testing.T) {
	d := enclosed(t, 10<<20)
	f, err := os.Create(filepath.Join(d.SharedDir(), "data/open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(); !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), d.Path()) {
		t.Errorf("while a file is open: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if len(image(t, d)) != 1 || mounts(t, d) != 1 {
		t.Errorf("a refused removal has left %v, mounted %d times", image(t, d), mounts(t, d))
	}
	if err := d.Destroy(); err != nil {
		t.Fatal(err)
	}
	if left := image(t, d); d.Exists() || len(left) > 0 || mounts(t, d) != 0 {
		t.Errorf("left: %v, %v, mounted %d times", d.Exists(), left, mounts(t, d))
	}
}

// A crash while it is made leaves nothing that the next try takes for whole.
func TestAnUnfinishedFileSystemIsMadeAnew(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	d := allocdir.New(base, ids.Alloc(ids.New()))
	if err := os.MkdirAll(filepath.Join(base, ".images"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(base, ".images", filepath.Base(d.Path())+".new"), "half a file system")
	enclose(t, d, 10<<20)
	if mounts(t, d) != 1 || len(image(t, d)) != 1 {
		t.Errorf("mounted %d times, images %v", mounts(t, d), image(t, d))
	}
	if err := d.Destroy(); err != nil {
		t.Fatal(err)
	}
}

// What an alloc has written before its agent was told to enclose it is not covered.
func TestADirectoryThatIsInUseIsNotCovered(t *testing.T) {
	needRoot(t)
	d := build(t)
	if err := d.Enclose(t.Context(), 10<<20, true); err != nil {
		t.Fatal(err)
	}
	if mounts(t, d) != 0 || len(image(t, d)) > 0 {
		t.Errorf("mounted %d times, images %v", mounts(t, d), image(t, d))
	}
}

// Given an alloc's own file system, then programs of it gain nobody's privileges and devices in it are none.
func TestAFileSystemOfItsOwnGivesNoPrivileges(t *testing.T) {
	d := enclosed(t, 10<<20)
	var st unix.Statfs_t
	if err := unix.Statfs(d.Path(), &st); err != nil {
		t.Fatal(err)
	}
	if st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 || st.Flags&unix.ST_RDONLY != 0 {
		t.Errorf("it is mounted with flags %#x", st.Flags)
	}
	null := filepath.Join(d.SharedDir(), "null")
	if err := unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(null); !errors.Is(err, unix.EACCES) {
		t.Errorf("a device in it is read: %v", err)
	}
}

// Given an alloc's own file system that a mount namespace or a program holds by another loop device, when the alloc's
// directory is to have it again, then it is left alone, with the device and the way to its holder: two mounts of one
// image destroy it.
func TestAFileSystemThatIsInUseElsewhereIsNotMountedAgain(t *testing.T) {
	d := enclosed(t, 10<<20)
	if err := unix.Unmount(d.Path(), 0); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", image(t, d)[0]))
	err := d.Enclose(t.Context(), 10<<20, false)
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), filepath.Base(device)) ||
		!strings.Contains(err.Error(), "losetup -j "+image(t, d)[0]) || mounts(t, d) != 0 {
		t.Errorf("bound to %s: %v, mounted %d times", device, err, mounts(t, d))
	}
	run(t, "losetup", "--detach", device)
	if err := d.Enclose(t.Context(), 10<<20, false); err != nil || mounts(t, d) != 1 {
		t.Errorf("detached again: %v, mounted %d times", err, mounts(t, d))
	}
}

// Given an alloc's own file system with errors, when it is mounted again, then those that can be corrected without
// losing anything are, and one that has others is not mounted: what it holds is a person's to save.
func TestAFileSystemWithErrorsIsCorrectedOrLeftAlone(t *testing.T) {
	for what, c := range map[string]struct {
		damage  string
		mounted bool
	}{
		"a count is wrong":      {"set_super_value free_inodes_count 1", true},
		"a directory is a file": {"set_inode_field /alloc mode 0100644", false}, // the kernel would mount it
	} {
		d := enclosed(t, 10<<20)
		if err := unix.Unmount(d.Path(), 0); err != nil {
			t.Fatal(err)
		}
		for _, request := range []string{c.damage, "set_super_value state 2"} { // 2: it has errors
			run(t, "debugfs", "-w", "-R", request, image(t, d)[0])
		}
		err := d.Enclose(t.Context(), 10<<20, false)
		if c.mounted && (err != nil || mounts(t, d) != 1) {
			t.Errorf("%s: %v, mounted %d times", what, err, mounts(t, d))
		}
		if !c.mounted && (err == nil || !strings.Contains(err.Error(), d.Path()) || mounts(t, d) != 0) {
			t.Errorf("%s: %v, mounted %d times", what, err, mounts(t, d))
		}
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, complaints.String())
	}
	return string(out)
}

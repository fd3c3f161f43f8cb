package allocdir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/wire"
)

func used(t *testing.T, d allocdir.Dir) allocdir.Use {
	t.Helper()
	u, err := d.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Given an alloc's directory, when its tasks write, then what they have written counts where it lies, once.
func TestWhatAnAllocTakesOfTheDisk(t *testing.T) {
	d := build(t, "web")
	empty := used(t, d).Bytes
	local := filepath.Join(d.TaskDir("web"), "local")
	write(t, filepath.Join(local, "big"), strings.Repeat("x", 1<<20))
	if err := os.Link(filepath.Join(local, "big"), filepath.Join(local, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(local, "node")); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(d.SharedDir(), "data/sparse")
	write(t, sparse, "x")
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	u := used(t, d)
	if grown := u.Bytes - empty; grown < 1<<20 || grown > 1<<20+64<<10 {
		t.Errorf("a MiB with two names, a link and a long empty file take %d bytes", grown)
	}
	if len(u.Places) == 0 || u.Places[0].Name != "web/local" || u.Places[0].Bytes < 1<<20 {
		t.Errorf("the places are %+v", u.Places)
	}
}

// Files without content take room as well: of the node's inodes.
func TestManyEmptyFilesAreAUse(t *testing.T) {
	d := build(t, "web")
	before := used(t, d)
	for i := range 2000 {
		write(t, filepath.Join(d.SharedDir(), "data", strconv.Itoa(i)), "")
	}
	after := used(t, d)
	if after.Entries != before.Entries+2000 || after.Bytes < before.Bytes+2000*4096 {
		t.Errorf("from %d bytes in %d files to %d in %d", before.Bytes, before.Entries, after.Bytes, after.Entries)
	}
}

// What is mounted below is not the alloc's: neither a file system of its own nor a directory of the same one.
func TestNothingThatIsMountedBelowCounts(t *testing.T) {
	needRoot(t)
	d := build(t, "web")
	volume := t.TempDir()
	write(t, filepath.Join(volume, "big"), strings.Repeat("x", 1<<20))
	inside := filepath.Join(d.TaskDir("web"), "local/volume")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.TaskDir("web"), "secrets/key"), strings.Repeat("x", 512<<10))
	if err := unix.Mount(volume, inside, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(inside, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if u := used(t, d); u.Bytes > 256<<10 {
		t.Errorf("%d bytes: %+v", u.Bytes, u.Places)
	}
}

func TestMeasuringEndsWithItsContextAndWithoutADirectory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build(t).Use(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if u := used(t, allocdir.New(t.TempDir(), "11111111-2222-4333-8444-555555555555")); u.Bytes != 0 {
		t.Errorf("nothing takes %d bytes", u.Bytes)
	}
}

// Given the directories of two allocs, when all that they occupy is measured, then a file counts once and as what it
// occupies, what is mounted below counts as nothing, and a file system of an alloc's own counts as its image.
func TestWhatAllAllocsOccupy(t *testing.T) {
	d := enclosed(t, 32<<20)
	base := filepath.Dir(d.Path())
	occupied := func() int64 {
		t.Helper()
		unix.Sync()
		n, err := allocdir.Occupied(t.Context(), base)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := occupied()
	if before == 0 || before > 32<<20 {
		t.Errorf("an image of 32 MiB that is empty occupies %d bytes", before)
	}
	write(t, filepath.Join(d.SharedDir(), "data/big"), strings.Repeat("x", 8<<20))
	if grown := occupied() - before; grown < 8<<20 || grown > 12<<20 {
		t.Errorf("8 MiB in an alloc's own file system occupy %d bytes", grown)
	}
	other := allocdir.New(base, ids.Alloc(ids.New()))
	if err := other.Build(); err != nil {
		t.Fatal(err)
	}
	before = occupied()
	write(t, filepath.Join(other.SharedDir(), "data/big"), strings.Repeat("x", 1<<20))
	data := filepath.Join(other.SharedDir(), "data")
	if err := os.Link(filepath.Join(data, "big"), filepath.Join(data, "again")); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		write(t, filepath.Join(data, strconv.Itoa(i)), "")
	}
	if grown := occupied() - before; grown < 1<<20 || grown > 1<<20+64<<10 {
		t.Errorf("a MiB with two names and a hundred empty files occupy %d bytes", grown)
	}
	if n, err := allocdir.Occupied(t.Context(), filepath.Join(base, "absent")); n != 0 || err != nil {
		t.Errorf("no directory occupies %d bytes: %v", n, err)
	}
}

// It is measured again and again: no file may stay open.
func TestMeasuringLeavesNoFileOpen(t *testing.T) {
	d := build(t, "web")
	for i := range 300 {
		write(t, filepath.Join(d.SharedDir(), "data", strconv.Itoa(i)), "x")
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	used(t, d)
	if after := open(); after > before+100 {
		t.Errorf("%d files were open, and are %d", before, after)
	}
}

// Given directories in each other deeper than is looked at, with files below, then they are said to be too deep, and
// removing the alloc's directory leaves nothing.
func TestWhatLiesTooDeepIsSaidAndRemoved(t *testing.T) {
	d := build(t, "web")
	fd, err := unix.Open(filepath.Join(d.TaskDir("web"), "local"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3*allocdir.Deepest + 10 {
		if i == allocdir.Deepest/2 && used(t, d).TooDeep {
			t.Error("half of it is too deep")
		}
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		file, err := unix.Openat(next, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err := errors.Join(err, unix.Close(file), unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if !used(t, d).TooDeep {
		t.Error("it is not said")
	}
	if err := d.Destroy(); err != nil || d.Exists() {
		t.Errorf("it is there: %v, %v", d.Exists(), err)
	}
}

// A task that makes and removes directories for ever must not keep its disk from being measured.
func TestADirectoryThatIsRemovedMeanwhileIsNoFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := allocdir.MeasureOpened(t.Context(), fd); err != nil {
		t.Error(err)
	}
}

// What a task calls its files is shown to people and machines that take nothing but text.
func TestNamesOfFilesAreText(t *testing.T) {
	d := build(t, "web")
	shared := filepath.Join(d.SharedDir(), "\xff\xfe")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(shared, "big"), strings.Repeat("x", 1<<20))
	const shown = "\uFFFD" // one for both bytes
	if u := used(t, d); len(u.Places) == 0 || u.Places[0].Name != "alloc/"+shown {
		t.Errorf("the places are %+v", u.Places)
	}
	files, err := d.List("alloc")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f wire.FileInfo) bool { return f.Name == shown }) {
		t.Errorf("the files are %+v", files)
	}
}

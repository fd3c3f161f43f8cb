package allocdir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/client/allocdir"
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

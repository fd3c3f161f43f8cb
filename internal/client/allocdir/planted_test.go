package allocdir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
	"berth/internal/wire"
)

// plant lays what a task can make into a directory, under what it is.
func plant(t *testing.T, dir string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("sparse"), "")
	zero := int(unix.Mkdev(1, 5))
	err := errors.Join(
		os.Truncate(at("sparse"), 64<<30),
		unix.Mkfifo(at("pipe"), 0o666),
		os.Mkdir(at("directory"), 0o755),
		os.Symlink("pipe", at("link")),
		unix.Mknod(at("device"), unix.S_IFCHR|0o666, zero),
		unix.Mknod(at("socket"), unix.S_IFSOCK|0o666, 0))
	if err != nil {
		t.Fatal(err)
	}
}

// Given a task's directory with all that a task can lay there, when somebody looks at it and reads it, then nothing
// hangs and nothing is read whole: what is no plain file is refused, and of a sparse one there is as much as is asked
// for, and no more than its reader takes.
func TestNothingThatATaskLaysHangsItsReader(t *testing.T) {
	needRoot(t)
	d := build(t, "web")
	plant(t, filepath.Join(d.Path(), "web/local"))
	for _, name := range []string{"pipe", "socket", "device", "directory", "link"} {
		err := d.Read(t.Context(), "web/local/"+name, allocdir.ReadRequest{}, func(*wire.StreamFrame) error {
			return errors.New("it was read")
		})
		if err == nil || err.Error() == "it was read" {
			t.Errorf("reading a %s: %v", name, err)
		}
		if _, err := d.Stat("web/local/" + name); err != nil && name != "socket" {
			t.Errorf("looking at a %s: %v", name, err)
		}
	}
	if list, err := d.List("web/local"); err != nil || len(list) != 6 {
		t.Errorf("it lists %v, %v", list, err)
	}
	var got int
	full := errors.New("enough")
	err := d.Read(t.Context(), "web/local/sparse", allocdir.ReadRequest{}, func(f *wire.StreamFrame) error {
		if got += len(f.Data); got > 1<<20 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || got > 2<<20 {
		t.Errorf("of the sparse file %d bytes were read: %v", got, err)
	}
}

// Given output files of a task that are none, when its output is read, then that ends.
func TestNothingInPlaceOfOutputHangsItsReader(t *testing.T) {
	needRoot(t)
	d := build(t, "web")
	plant(t, d.LogDir())
	for i, name := range []string{"pipe", "link", "device", "directory", "socket"} {
		at := filepath.Join(d.LogDir(), "web.stdout."+strconv.Itoa(i))
		if err := os.Rename(filepath.Join(d.LogDir(), name), at); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := d.Log(ctx, "web", "stdout", allocdir.ReadRequest{}, func(*wire.StreamFrame) error {
		return errors.New("it was read")
	})
	if err != nil {
		t.Errorf("its output: %v", err)
	}
}

// Given a directory with more entries than anybody reads, when it is listed, then that is refused with a way out; and
// when its alloc is destroyed, then all of it goes.
func TestADirectoryWithoutEndIsNotListedAndGoes(t *testing.T) {
	d := build(t, "web")
	dir := filepath.Join(d.Path(), "web/local/many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, "first")
	write(t, first, "")
	for i := range 50_001 {
		if i%30_000 == 29_999 { // a file takes so many names in some file systems
			first = filepath.Join(dir, fmt.Sprintf("first-%d", i))
			write(t, first, "")
		}
		if err := os.Link(first, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.List("web/local/many"); !fault.Has(err, fault.Invalid) {
		t.Errorf("it is listed: %v", err)
	}
	if err := d.Destroy(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

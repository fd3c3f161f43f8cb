package fingerprint

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Given a disk that others fill and free, and allocs that write, when the node looks, then it offers what is free and
// what the allocs' own files take: what was freed is seen, and what an alloc asked for is not taken twice.
func TestWhatIsFreedIsOfferedAndAllocsFilesCountOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	allocs := filepath.Join(dir, "alloc")
	if err := os.Mkdir(allocs, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(path string, mib int) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, mib<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var d Disk
	offers := func(when string, want int64) {
		t.Helper()
		if got, err := d.Look(t.Context(), dir, allocs); err != nil || got != want {
			t.Errorf("%s it offers %d MiB, want %d: %v", when, got, want, err)
		}
	}
	filler := filepath.Join(dir, "filler")
	put(filler, 200)
	offers("beside 200 MiB of others", 56)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	offers("with them gone", 256)
	put(filepath.Join(allocs, "file"), 100)
	offers("with 100 MiB of an alloc", 256)
	if err := os.Link(filepath.Join(allocs, "file"), filepath.Join(allocs, "again")); err != nil {
		t.Fatal(err)
	}
	put(filepath.Join(allocs, "more"), leastChange+1)
	offers("with another name of that and a little more", 256)
	put(filler, leastChange-1)
	offers("after a small change", 256)
}

package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

func mountTmpfs(t *testing.T, path string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("tmpfs", path, "tmpfs", flags, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

func TestTheTableShowsTheTopmostMount(t *testing.T) {
	dir := t.TempDir()
	mountTmpfs(t, dir, 0)
	mountTmpfs(t, dir, unix.MS_RDONLY)
	tab, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := tab.At(dir)
	if !ok || m.FSType != "tmpfs" || !m.ReadOnly {
		t.Fatalf("got %+v, %v; want the read-only tmpfs on top", m, ok)
	}
	if got := len(tab.Beneath(dir)); got != 2 {
		t.Fatalf("%d mounts beneath %s, want 2", got, dir)
	}
	if got := tab.Beneath(dir[:len(dir)-1]); len(got) != 0 {
		t.Fatalf("a mount beside the path, whose name begins like it, counts as beneath: %v", got)
	}
	if got := tab.Beneath(dir + "x"); len(got) != 0 {
		t.Fatalf("a path that only shares the beginning counts as beneath: %v", got)
	}
}

// TestEveryReadingShowsWhatWasMountedBefore: given a table that is read again only when it changed, when something is
// mounted, made read-only or unmounted between two readings, then the second shows it; without a change it is the same.
func TestEveryReadingShowsWhatWasMountedBefore(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil && err != unix.EINVAL { // it is no mount, where all went well
			t.Error(err)
		}
	})
	look := func() (hostfs.Mount, bool) {
		tab, err := hostfs.ReadTable()
		if err != nil {
			t.Fatal(err)
		}
		return tab.At(dir)
	}
	for i := range 50 {
		if m, mounted := look(); mounted {
			t.Fatalf("round %d: before the mount it shows %+v", i, m)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		if m, mounted := look(); !mounted || m.ReadOnly {
			t.Fatalf("round %d: after the mount it shows %+v, %t", i, m, mounted)
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if m, mounted := look(); !mounted || !m.ReadOnly {
			t.Fatalf("round %d: made read-only it shows %+v, %t", i, m, mounted)
		}
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyReadWhileOthersMount: whoever has mounted something sees it in the next reading, whoever else reads.
func TestManyReadWhileOthersMount(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		dir := t.TempDir()
		wg.Go(func() {
			for range 25 {
				if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
					t.Error(err)
					return
				}
				mounted, err1 := hostfs.ReadTable()
				err2 := unix.Unmount(dir, 0)
				unmounted, err3 := hostfs.ReadTable()
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Error(err)
					return
				}
				if len(mounted.Beneath(dir)) != 1 || len(unmounted.Beneath(dir)) != 0 {
					t.Error("a reading is older than what was done before it")
				}
			}
		})
	}
	wg.Wait()
}

func TestRemovalStopsAtAMount(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, filepath.Join(dir, "m"), 0)
	if err := hostfs.RemoveEmpty(dir); !fault.Has(err, fault.Busy) {
		t.Fatalf("got %v, want a busy fault that names the mount", err)
	}
	if err := unix.Unmount(filepath.Join(dir, "m"), 0); err != nil {
		t.Fatal(err)
	}
	if err := hostfs.RemoveEmpty(dir); !fault.Has(err, fault.Conflict) {
		t.Fatalf("got %v, want a conflict for the directory that is not empty", err)
	}
	if err := hostfs.RemoveEmpty(filepath.Join(dir, "m")); err != nil {
		t.Fatal(err)
	}
	if err := hostfs.RemoveEmpty(dir); err != nil {
		t.Fatal(err)
	}
	if err := hostfs.RemoveEmpty(dir); err != nil {
		t.Fatalf("removing what is gone: %v", err)
	}
}

// TestAMountHasAnIDOfItsOwn: the next mount at the same path has another, though its number may be the same.
func TestAMountHasAnIDOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	unique := func() uint64 {
		tab, err := hostfs.ReadTable()
		if err != nil {
			t.Fatal(err)
		}
		m, mounted := tab.At(dir)
		if !mounted {
			t.Fatal("it is not mounted")
		}
		return hostfs.UniqueID(m.ID)
	}
	mountTmpfs(t, dir, 0)
	first := unique()
	if first == 0 {
		t.Skip("this kernel has no unique ids of mounts (before 6.8)")
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID_UNIQUE, &st); err != nil || st.Mnt_id != first {
		t.Errorf("the id is %d, statx says %d (%v)", first, st.Mnt_id, err)
	}
	if again := unique(); again != first {
		t.Errorf("the id was %d, and is %d", first, again)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, dir, 0)
	if next := unique(); next == first || next == 0 {
		t.Errorf("the next mount has the id %d", next)
	}
	if id := hostfs.UniqueID(1 << 30); id != 0 {
		t.Errorf("a mount that is not there has the id %d", id)
	}
}

package allocdir_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/port/quota"
	"berth/internal/testkit/projects"
)

// Given an agent that holds disks by quotas, then a new alloc's directory has a project with the size that its group
// asks for before there is anything in it, what it takes is what the kernel counts, and no limit is left when it is
// gone.
func TestADiskIsHeldByAQuota(t *testing.T) {
	k := projects.New()
	d := allocdir.New(filepath.Join(t.TempDir(), "allocs"), ids.Alloc(ids.New())).WithKernel(k)
	for range 2 { // the second is of an agent that started again
		if err := d.Hold(t.Context(), 8<<20, allocdir.Quota); err != nil {
			t.Fatal(err)
		}
		if err := d.Build(); err != nil {
			t.Fatal(err)
		}
	}
	if k.Of(t, d.Path()) != quota.First || k.Limits[quota.First].Bytes != 8<<20 || len(k.Limits) != 1 {
		t.Fatalf("project %d, limits %v", k.Of(t, d.Path()), k.Limits)
	}
	if err := os.WriteFile(filepath.Join(d.SharedDir(), "file"), make([]byte, 64<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	k.Used[quota.First] = projects.Counts{Bytes: 3 << 20, Files: 9}
	if u, err := d.Use(t.Context()); err != nil || u.Bytes != 3<<20 {
		t.Errorf("it takes %+v: %v", u, err)
	}
	k.Fails = func(call string) error { // mounted without quotas since
		if call == "get attributes" {
			return nil
		}
		return unix.ESRCH
	}
	if u, err := d.Use(t.Context()); err != nil || u.Bytes < 64<<10 || u.Bytes > 1<<20 || len(u.Places) == 0 {
		t.Errorf("without quotas it takes %+v: %v", u, err)
	}
	k.Fails = nil
	if err := d.Destroy(); err != nil {
		t.Fatal(err)
	}
	if k.Limits[quota.First].Bytes != 0 || d.Exists() {
		t.Errorf("limits %v, there %v", k.Limits, d.Exists())
	}
}

// What began before stays as it was.
func TestADirectoryWithFilesGetsNoQuota(t *testing.T) {
	k := projects.New()
	d := allocdir.New(t.TempDir(), ids.Alloc(ids.New())).WithKernel(k)
	if err := d.Hold(t.Context(), 8<<20, allocdir.Measured); err != nil {
		t.Fatal(err)
	}
	if err := d.Build(); err != nil {
		t.Fatal(err)
	}
	if err := d.Hold(t.Context(), 8<<20, allocdir.Quota); err != nil || len(k.Limits) > 0 {
		t.Errorf("%v, limits %v", err, k.Limits)
	}
}

// A task does not start unheld where its disk should be held.
func TestWithoutItsQuotaAnAllocDoesNotBegin(t *testing.T) {
	k := projects.New()
	k.Fails = func(call string) error {
		if call == "set limits" {
			return unix.EDQUOT
		}
		return nil
	}
	d := allocdir.New(t.TempDir(), ids.Alloc(ids.New())).WithKernel(k)
	if err := d.Hold(t.Context(), 8<<20, allocdir.Quota); err == nil {
		t.Error("it began")
	}
	err := allocdir.CanQuota(filepath.Join(t.TempDir(), "not", "yet"))
	if err != nil && !fault.Has(err, fault.Unsupported) {
		t.Error(err)
	}
}

package localcsi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/volumestore"
	"berth/internal/localcsi/datadir"
)

// onItsDisk is a plugin whose directory is a file system of its own, and that has the copy of its identity beside it.
func onItsDisk(t *testing.T) *world {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "volumes")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // a test that failed may have undone it
	return newWorld(t, dir, func(c *Config) { c.Identity = dir + ".identity" })
}

// Given a plugin with a volume on a disk of its own, when that disk is not mounted at the next start, then the plugin
// does not serve, says what to mount, and makes nothing in the directory underneath; the check says the same; with the
// disk the volume is there; and once the store is said to be lost, the plugin begins a new one.
func TestAnEmptyDirectoryInThePlaceOfADiskIsNotServed(t *testing.T) {
	w := onItsDisk(t)
	id := w.create(createReq("kept", 16*mib, mountCap("ext4", single)))
	w.stop()
	aside := filepath.Join(w.base, "disk")
	if err := os.Mkdir(aside, 0o700); err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		t.Helper()
		if err := unix.Mount(from, to, "", unix.MS_MOVE, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("", w.cfg.DataDir, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(w.cfg.DataDir, aside, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(w.cfg.DataDir, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that serves ends, too
	defer cancel()
	if err := Run(ctx, w.cfg); err == nil || !strings.Contains(err.Error(), "mount it on "+w.cfg.DataDir) {
		t.Errorf("the start is not refused: %v", err)
	}
	if left, err := os.ReadDir(w.cfg.DataDir); err != nil || len(left) > 0 {
		t.Errorf("the refused start made %v: %v", left, err)
	}
	if _, bad := datadir.Check(w.cfg.DataDir, w.cfg.Identity); len(bad) != 1 ||
		!strings.Contains(bad[0].Error(), "mount it on") {
		t.Errorf("the check says %v", bad)
	}
	if _, bad := datadir.List(w.cfg.DataDir, w.cfg.Identity); len(bad) != 1 {
		t.Errorf("a backup says %v", bad)
	}
	move(aside, w.cfg.DataDir)
	w.start()
	if got := w.volumes(); len(got) != 1 || got[0] != id {
		t.Errorf("with the disk it has %q", got)
	}
	w.stop()
	move(w.cfg.DataDir, aside)
	if err := os.Remove(w.cfg.Identity); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := w.volumes(); len(got) != 0 {
		t.Errorf("the new store has %q", got)
	}
	w.stop()
	if err := unix.Unmount(aside, 0); err != nil {
		t.Fatal(err)
	}
}

// Given a plugin of a version that had no copy of the identity, with a volume on a disk of its own, when that disk is
// not mounted at the first start of this version, which the old command line has made, then the plugin neither serves
// nor makes anything there before the servers have answered its agent, nor when they know the volume; with the disk it
// serves, and its identity is kept from then on.
func TestTheFirstStartAfterAnUpgradeBeginsNoOtherStore(t *testing.T) {
	w := onItsDisk(t)
	w.stop()
	copied := w.cfg.Identity
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	w.cfg.Identity = ""
	w.start()
	id := w.create(createReq("kept", 16*mib, mountCap("ext4", single)))
	w.stop()
	dir, disk := w.cfg.DataDir, filepath.Join(w.base, "disk")
	if err := errors.Join(os.Mkdir(disk, 0o700), unix.Mount(dir, disk, "", unix.MS_BIND, ""),
		unix.Unmount(dir, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	refused := func(says string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that serves ends, too
		defer cancel()
		if err := Run(ctx, w.cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the start does not say %q: %v", says, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the refused start made %v: %v", left, err)
		}
	}
	if asks, err := volumestore.Ask(dir); err != nil || !asks {
		t.Fatal(asks, err)
	}
	refused("the servers have not yet told")
	if found, bad := datadir.Check(dir, copied); len(bad) > 0 || found.Volumes > 0 {
		t.Errorf("the check says %v, %v", found, bad)
	}
	if err := volumestore.Answer(dir, []string{"default/kept"}); err != nil {
		t.Fatal(err)
	}
	refused("default/kept")
	if _, bad := datadir.Check(dir, copied); len(bad) != 1 || !strings.Contains(bad[0].Error(), "default/kept") {
		t.Errorf("the check says %v", bad)
	}
	if err := unix.Mount(disk, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := w.volumes(); len(got) != 1 || got[0] != id {
		t.Errorf("with the disk it has %q", got)
	}
	w.stop()
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	refused("this node's volumes are in instance")
	if err := unix.Mount(disk, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

// Given a plugin that serves, when another store is mounted over its own, then it is not healthy, and neither creates
// nor deletes anything; with that gone it goes on.
func TestAStoreMountedOverAnotherIsNotBelieved(t *testing.T) {
	w := onItsDisk(t)
	id := w.create(createReq("kept", 16*mib, mountCap("ext4", single)))
	other := newWorld(t, "", nil)
	other.stop()
	if err := unix.Mount(other.cfg.DataDir, w.cfg.DataDir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "another data directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := csi.NewIdentityClient(w.conn).Probe(t.Context(), &csi.ProbeRequest{})
	refused("probe", err)
	_, err = w.ctl.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	refused("delete", err)
	unknown := strings.Replace(id, id[4:8], "0000", 1)
	_, err = w.ctl.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: unknown})
	refused("delete of a volume that nobody knows", err)
	_, err = w.ctl.CreateVolume(t.Context(), createReq("new", 16*mib, mountCap("ext4", single)))
	refused("create", err)
	if err := unix.Unmount(w.cfg.DataDir, 0); err != nil {
		t.Fatal(err)
	}
	if got := w.volumes(); len(got) != 1 || got[0] != id {
		t.Errorf("it has %q", got)
	}
	if _, err := w.ctl.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		t.Error(err)
	}
}

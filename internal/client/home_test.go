package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client"
	"berth/internal/port/kv"
)

// TestACopyOfALivingNodesDirectoryIsRefused: given a copy of a node's directory, while its agent runs or something of
// it is mounted, no agent starts on the copy, which would reach the plugins of the original; else it is at home there.
func TestACopyOfALivingNodesDirectoryIsRefused(t *testing.T) {
	r := newRig(t)
	r.start().stop()
	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.CopyFS(clone, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	begins := func() error {
		c, err := client.New(t.Context(), client.Config{DataDir: clone, Servers: r.calls})
		if err == nil {
			c.Close()
		}
		return err
	}
	refused := func(why string) {
		t.Helper()
		err := begins()
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), r.dir) {
			t.Errorf("%v, want a refusal because %s", err, why)
		}
	}
	lock, err := kv.LockDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	refused("its agent runs")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(r.dir, "alloc")
	if err := os.MkdirAll(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	refused("something of it is mounted at " + mounted)
	if err := unix.Unmount(mounted, 0); err != nil {
		t.Fatal(err)
	}
	if err := begins(); err != nil {
		t.Errorf("nothing of the original lives, and yet: %v", err)
	}
	if lock, err = kv.LockDir(r.dir); err != nil {
		t.Fatal(err)
	}
	if err := begins(); err != nil {
		t.Errorf("it is at home there now, and yet: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

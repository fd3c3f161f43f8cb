package alive

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/killable"
	"berth/internal/helperbin"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// unwritable is a file system that cannot write down anything any more, which the mount table does not show.
type unwritable struct{ fs.Inode }

func (*unwritable) Statfs(context.Context, *fuse.StatfsOut) syscall.Errno      { return 0 }
func (*unwritable) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return unix.EIO }
func (*unwritable) Opendir(context.Context) syscall.Errno                      { return 0 }

// TestWhoWritesHasItsFileSystemAskedToWrite: a file system that cannot write is dead to the alloc that it was published
// to for writing, and not to one that only reads it.
func TestWhoWritesHasItsFileSystemAskedToWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	at := t.TempDir()
	server, err := fs.Mount(at, &unwritable{}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	e := &entry.Entry{Pubs: map[ids.Alloc]*entry.Publication{
		"writes": {HostPath: at},
		"reads":  {HostPath: at, ReadOnly: true},
	}}
	p := &Prober{Helpers: &killable.Helpers{Program: helperbin.Open, Path: helperbin.Path}}
	why, err := p.Dead(t.Context(), e, "writes")
	if err != nil || !strings.Contains(why, unix.EIO.Error()) {
		t.Errorf("to who writes: %q, %v", why, err)
	}
	if why, err = p.Dead(t.Context(), e, "reads"); err != nil || why != "" {
		t.Errorf("to who reads: %q, %v", why, err)
	}
}

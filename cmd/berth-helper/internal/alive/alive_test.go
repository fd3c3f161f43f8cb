package alive

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// failing is a file system that answers what a case says.
type failing struct {
	fs.Inode
	figures, sync syscall.Errno
}

func (f *failing) Statfs(context.Context, *fuse.StatfsOut) syscall.Errno      { return f.figures }
func (f *failing) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return f.sync }
func (f *failing) Opendir(context.Context) syscall.Errno                      { return 0 }
func (f *failing) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	return fs.NewListDirStream(nil), 0
}

// TestAWriterIsAskedToWrite: what a file system cannot write down any more is its death to a writer, and not to a
// reader, who is not asked to write; what it cannot even tell is its death to both.
func TestAWriterIsAskedToWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for name, c := range map[string]struct {
		figures, sync syscall.Errno
		read, write   string
	}{
		"it lives":                     {},
		"it knows no such call":        {sync: unix.ENOTSUP},
		"it has become read-only":      {sync: unix.EROFS, write: unix.EROFS.Error()},
		"it is read-only altogether":   {figures: unix.EROFS, write: unix.EROFS.Error()},
		"its device fails":             {sync: unix.EIO, write: unix.EIO.Error()},
		"its server has forgotten it":  {figures: unix.ESTALE, read: unix.ESTALE.Error(), write: unix.ESTALE.Error()},
		"it denies its figures to all": {figures: unix.EACCES, sync: unix.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			at := t.TempDir()
			server, err := fs.Mount(at, &failing{figures: c.figures, sync: c.sync},
				&fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Unmount(); err != nil {
					t.Error(err)
				}
			})
			for mode, want := range map[string]string{Read: c.read, Write: c.write} {
				var said strings.Builder
				if err := Run(&said, []string{at, mode}); err != nil || said.String() != want {
					t.Errorf("asked to %s it says %q (%v), not %q", mode, said.String(), err, want)
				}
			}
		})
	}
}

// Given a file system on an image whose disk is full, when the write of a line has failed under its writer's fsync, and
// the disk has room again, then the file system is dead to a writer: it shows the line, and its disk does not have it.
func TestAFileSystemIsDeadAfterAWriteThatFailed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	top := t.TempDir()
	disk, at := filepath.Join(top, "disk"), filepath.Join(top, "at")
	must(errors.Join(os.Mkdir(disk, 0o700), os.Mkdir(at, 0o700)))
	must(unix.Mount("tmpfs", disk, "tmpfs", 0, "size=20m"))
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	image, err := os.OpenFile(filepath.Join(disk, "image"), os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	defer image.Close()
	const size, block = 16 << 20, 4096
	must(image.Truncate(size))
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("mkfs.ext4", "-q", "-b", "4096", image.Name())
	run("mount", "-o", "loop", image.Name(), at)
	t.Cleanup(func() { run("umount", at) })
	log, err := os.OpenFile(filepath.Join(at, "log"), os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	defer log.Close()
	write := func(line string) error {
		_, err := log.WriteAt(append([]byte(line), make([]byte, block-len(line))...), 0)
		return errors.Join(err, log.Sync())
	}
	must(write("before"))
	var of int32 // the block of the file; before the call, which of them
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, log.Fd(), 1 /* FIBMAP */, uintptr(unsafe.Pointer(&of))); no != 0 {
		t.Fatal(no)
	}
	// All of the image has its room, but that one block.
	must(unix.Fallocate(int(image.Fd()), 0, 0, size))
	must(unix.Fallocate(int(image.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(of)*block, block))
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, size), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := write("lost"); err == nil {
		t.Fatal("a write for which there is no room succeeds")
	}
	must(os.Remove(ballast))
	for mode, want := range map[string]string{Read: "", Write: errUnwritten.Error()} {
		var said strings.Builder
		err := Run(&said, []string{at, mode})
		if err != nil || !strings.HasPrefix(said.String(), want) || want == "" && said.Len() > 0 {
			t.Errorf("asked to %s it says %q (%v), not %q", mode, said.String(), err, want)
		}
	}
}

// TestWhatLivesAndWhatIsMissingIsNotCalledDead: a word is said of a dead file system alone.
func TestWhatLivesAndWhatIsMissingIsNotCalledDead(t *testing.T) {
	for _, path := range []string{t.TempDir(), t.TempDir() + "/missing"} {
		for _, mode := range []string{Read, Write} {
			var said strings.Builder
			if err := Run(&said, []string{path, mode}); err != nil || said.Len() > 0 {
				t.Errorf("%s of %s: %q, %v", mode, path, said.String(), err)
			}
		}
	}
	if err := Run(&strings.Builder{}, []string{t.TempDir(), "nonsense"}); err == nil {
		t.Error("a mode that there is not is taken")
	}
}

// TestWhichErrorsAreDeaths: read-only is death to a writer alone.
func TestWhichErrorsAreDeaths(t *testing.T) {
	for err, want := range map[error][2]bool{ // read, write
		nil:            {false, false},
		unix.EIO:       {true, true},
		unix.ESHUTDOWN: {true, true},
		unix.ENOTCONN:  {true, true},
		unix.ESTALE:    {true, true},
		unix.EROFS:     {false, true},
		unix.EACCES:    {false, false},
		unix.EINVAL:    {false, false},
	} {
		if got := [2]bool{dead(err, false), dead(err, true)}; got != want {
			t.Errorf("%v: %v, not %v", err, got, want)
		}
	}
}

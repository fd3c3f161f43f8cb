package allocdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

// images is the directory, beside those of the allocs, that has the images of their file systems.
const images = ".images"

// programs that make a file system on an image, bring it in order and mount it, with the package that has them.
var programs = map[string]string{"mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "mount": "mount"}

// image is the file that holds the alloc's file system, where it has one.
func (d Dir) image() string {
	return filepath.Join(filepath.Dir(d.path), images, filepath.Base(d.path))
}

// CanEnclose says what the node lacks to give allocs file systems of their own.
func CanEnclose() error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Denied, "", "file systems of allocations", "only root can mount them")
	}
	for name, source := range programs {
		if _, err := lookUp(name); err != nil {
			return fault.WithHint(fault.Wrap(err, fault.Unsupported, "find the program", name), "install "+source)
		}
	}
	return nil
}

// Enclose mounts a file system of so many bytes as the alloc's directory, unless it is mounted. It is made where the
// alloc is new and made is set; a directory that has something in it is left as it is.
func (d Dir) Enclose(ctx context.Context, size int64, made bool) error {
	if enclosed, err := d.enclosed(); err != nil || enclosed {
		return err
	}
	switch _, err := os.Lstat(d.image()); {
	case err == nil:
		if err := d.check(ctx); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return classify(err, "look for", d.image())
	default:
		if entries, err := os.ReadDir(d.path); !made || err == nil && len(entries) > 0 {
			return nil
		}
		if err := d.format(ctx, size); err != nil {
			return err
		}
	}
	if err := makeDir(d.path, 0o755); err != nil {
		return err
	}
	if err := run(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev", d.image(), d.path); err != nil {
		return fault.Wrap(err, fault.Internal, "mount the file system of", d.path)
	}
	if err := os.Remove(filepath.Join(d.path, "lost+found")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return classify(err, "tidy", d.path)
	}
	return nil
}

// enclosed reports that the alloc's own file system is mounted.
func (d Dir) enclosed() (bool, error) {
	if _, err := os.Lstat(d.image()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return false, err
	}
	_, mounted := table.At(d.path)
	return mounted, nil
}

// format makes an image with a file system. It has its name when it is whole; what a crash left of another try goes.
func (d Dir) format(ctx context.Context, size int64) error {
	dir := filepath.Dir(d.image())
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return classify(err, "make directory", filepath.Dir(dir))
	}
	if err := makeDir(dir, 0o700); err != nil {
		return err
	}
	unfinished := d.image() + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return classify(err, "remove", unfinished)
	}
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return classify(err, "make", unfinished)
	}
	if err := errors.Join(f.Truncate(imageSize(size)), f.Close()); err != nil {
		return classify(err, "make", unfinished)
	}
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", reserved, "-b", "4096", "-i", "4096", "-J", "size=4",
		"-O", "^resize_inode", unfinished); err != nil {
		return classify(err, "make a file system on", unfinished)
	}
	return classify(os.Rename(unfinished, d.image()), "name", d.image())
}

// reserved is how much of a file system is root's, in percent: output of tasks that are somebody else is written also
// when they have filled the rest.
const reserved = "5"

// imageSize is how large an image is that has so many bytes for files: beside them ext4 takes 4 MiB for its journal, an
// inode of 256 bytes for each block of 4,096, and maps.
func imageSize(bytes int64) int64 { return (bytes+6<<20)*8/7 + bytes/64 }

// check brings a file system in order that was not unmounted, as after a crash of the node. One that is in use
// elsewhere, in a mount namespace that is not the agent's, is left alone.
func (d Dir) check(ctx context.Context) error {
	bound, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "list", "loop devices")
	}
	for _, b := range bound {
		if name, err := os.ReadFile(b); err == nil && strings.TrimSpace(string(name)) == d.image() {
			return fault.WithHint(fault.New(fault.Busy, "mount", d.image(),
				"it is bound to "+filepath.Base(filepath.Dir(filepath.Dir(b)))),
				"see what holds it: losetup -j "+d.image())
		}
	}
	err = run(ctx, "e2fsck", "-p", d.image())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 4 {
		return nil // errors were corrected
	}
	return fault.Wrap(err, fault.Internal, "check the file system of", d.path)
}

// Disclose unmounts the alloc's own file system, which stays in its image: Enclose mounts it again.
func (d Dir) Disclose() error {
	if _, err := os.Lstat(d.image()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := unix.Unmount(d.path, unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // it is not mounted
	}
	return fault.WithHint(fault.Wrap(err, fault.Busy, "unmount the file system of", d.path),
		"something still uses a file there: fuser -vm "+d.path)
}

// dropImage removes the image of a directory that is gone.
func (d Dir) dropImage() error {
	for _, path := range []string{d.image(), d.image() + ".new"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return classify(err, "remove", path)
		}
	}
	return nil
}

// filled measures a file system of the alloc's own.
func (d Dir) filled() (Use, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.path, &st); err != nil {
		return Use{}, classify(err, "measure", d.path)
	}
	return Use{Bytes: int64(st.Blocks-st.Bfree) * st.Bsize, Charged: true, Enclosed: true}, nil
}

// lookUp finds a program of the system. The search path of whoever started the agent comes last.
func lookUp(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

func run(ctx context.Context, name string, args ...string) error {
	path, err := lookUp(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

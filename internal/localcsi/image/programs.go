package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// File systems that a volume can have.
const (
	Ext4 = "ext4"
	XFS  = "xfs"
)

// The smallest volumes. ext4 below has no room for a journal worth the name; mkfs.xfs refuses less than 300 MB.
const (
	MinExt4  int64 = 8 << 20
	MinXFS   int64 = 300 << 20
	MinBlock int64 = 1 << 20
)

const (
	formatLimit = 2 * time.Minute
	checkLimit  = 10 * time.Minute
	growLimit   = 5 * time.Minute
	smallBlocks = 64 << 20 // below this size ext4 gets blocks of 1 KiB
)

// packages names the Debian package that brings a program, for errors that say the way out.
var packages = map[string]string{
	"mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "resize2fs": "e2fsprogs", "mkfs.xfs": "xfsprogs",
	"xfs_growfs": "xfsprogs",
}

// lookUp finds a program where distributions put it; a task's PATH often lacks the sbin directories.
func lookUp(name string) (string, error) {
	for _, dir := range append([]string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"},
		filepath.SplitList(os.Getenv("PATH"))...) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed on this node (install the package %s): %w", name, packages[name],
		exec.ErrNotFound)
}

// run runs a program under a deadline; it inherits held. The exit code is -1 when there is none.
func run(ctx context.Context, limit time.Duration, held *os.File, name string, args ...string) (code int, err error) {
	path, err := lookUp(name)
	if err != nil {
		return -1, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not finish within %s", name, limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL=C"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if held != nil {
		cmd.ExtraFiles = []*os.File{held}
	}
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	if err == nil {
		return 0, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return -1, fmt.Errorf("%s: %w", name, cause)
	}
	err = fmt.Errorf("%s: %w: %s", name, err, lastLines(out.String()))
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), err
	}
	return -1, err
}

func lastLines(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = "…" + s[len(s)-400:]
	}
	return strings.ToValidUTF8(s, "?")
}

var (
	prezeroedOnce sync.Once
	prezeroedIs   bool
)

// prezeroed reports whether mkfs.ext4 takes the advice that a sparse file needs no zeroing (since e2fsprogs 1.47).
func prezeroed(ctx context.Context) bool {
	prezeroedOnce.Do(func() {
		path, err := lookUp("mkfs.ext4")
		if err != nil {
			return
		}
		if out, err := exec.CommandContext(ctx, path, "-V").CombinedOutput(); err == nil {
			prezeroedIs = atLeast147(string(out))
		}
	})
	return prezeroedIs
}

// atLeast147 reads "mke2fs 1.47.0 (5-Feb-2023)".
func atLeast147(banner string) bool {
	words := strings.Fields(banner)
	if len(words) < 2 {
		return false
	}
	major, rest, _ := strings.Cut(words[1], ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a > 1 || a == 1 && b >= 47)
}

// Format makes a file system on the image at path, which must hold nothing but zeroes. The file system is on disk
// when Format returns: both programs sync what they wrote. An image that others can find must be held.
func Format(ctx context.Context, held *os.File, path, fsType string, size int64) error {
	switch fsType {
	case Ext4:
		ext := "nodiscard,lazy_itable_init=1,lazy_journal_init=1"
		if prezeroed(ctx) {
			ext = "nodiscard,assume_storage_prezeroed=1"
		}
		block := "4096"
		if size < smallBlocks {
			block = "1024"
		}
		_, err := run(ctx, formatLimit, held, "mkfs.ext4", "-q", "-F", "-m", "0", "-b", block, "-E", ext, path)
		return err
	case XFS:
		_, err := run(ctx, formatLimit, held, "mkfs.xfs", "-q", "-f", "-K", path)
		return err
	}
	return fmt.Errorf("format %s: unknown file system %q", path, fsType)
}

// Check brings a held ext4 image in order that was not left so. xfs does that itself when it is mounted.
func Check(ctx context.Context, held *os.File, path, fsType string) error {
	if fsType != Ext4 {
		return nil
	}
	code, err := run(ctx, checkLimit, held, "e2fsck", "-p", path)
	// Bits 1 and 2: errors were corrected. Anything above: a person has to look.
	if err != nil && code > 0 && code < 4 {
		return nil
	}
	return err
}

// GrowImage lets the ext4 file system on a held image take all the room that the image has.
func GrowImage(ctx context.Context, held *os.File, path string) error {
	// resize2fs insists on a check that looked at everything.
	code, err := run(ctx, checkLimit, held, "e2fsck", "-f", "-p", path)
	if err != nil && (code <= 0 || code >= 4) {
		return err
	}
	_, err = run(ctx, growLimit, held, "resize2fs", path)
	return err
}

// CanGrowMounted reports whether this process may grow a mounted file system: the kernel asks for CAP_SYS_RESOURCE in
// the case of ext4, which containers and tasks often lack.
func CanGrowMounted(fsType string) bool {
	if fsType != Ext4 {
		return true
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// GrowMounted lets the mounted file system on device take all the room that the device has.
func GrowMounted(ctx context.Context, fsType, device, dir string) error {
	var err error
	switch fsType {
	case Ext4:
		_, err = run(ctx, growLimit, nil, "resize2fs", device)
	case XFS:
		_, err = run(ctx, growLimit, nil, "xfs_growfs", "-d", dir)
	default:
		err = fmt.Errorf("grow %s: unknown file system %q", device, fsType)
	}
	return err
}

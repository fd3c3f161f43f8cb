// Package mountns gives a package's tests a mount namespace of their own. A process that somebody starts in a new mount
// namespace gets a copy of every mount that is there, and holds it for as long as it lives: of what tests mount in the
// node's namespace it could keep a device or a directory busy. What they mount in their own nobody else copies, and
// what they leave there the kernel takes away with them. Tests that mount call it from their TestMain.
package mountns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// env is set for a test program that lives in a namespace of its own, and for what it starts.
const env = "BERTH_TEST_MOUNTNS"

// Fresh, in the environment of a test program started by another, gives it one more namespace.
const Fresh = env + "="

// Main runs the tests (testing.M.Run, or what prepares for it) in a mount namespace of their own, and ends the process.
// Without root they run where they are.
func Main(run func() int) {
	if os.Geteuid() != 0 {
		os.Exit(run())
	}
	code, err := 0, error(nil)
	if os.Getenv(env) == "" {
		code, err = again("new")
	} else {
		if os.Getenv(env) == "new" {
			err = errors.Join(dropOthers(), os.Setenv(env, "shared"))
		}
		if err == nil {
			code = run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a mount namespace for the tests:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// again starts this program once more, in a new namespace from which nothing propagates, and returns its exit code.
func again(state string) (int, error) {
	runtime.LockOSThread() // the child dies with this thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), env+"="+state)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// dropOthers takes out of this namespace what other tests had mounted when it was made: their mounts must not be held
// here either.
func dropOthers() error {
	temp := filepath.Clean(os.TempDir()) + "/"
	mounts, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(i.Mountpoint, temp), false
	})
	if err != nil {
		return err
	}
	for _, i := range slices.Backward(mounts) {
		err := unix.Unmount(i.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach %s: %w", i.Mountpoint, err)
		}
	}
	return nil
}

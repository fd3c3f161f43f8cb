package procs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Opened finds who has one of these files open, which are named as the kernel names them, without links; a file that
// was removed since is found, too. With fd >= 0 that descriptor alone counts. What ends meanwhile is left out.
func Opened(fd int, paths ...string) (pids []int, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "look at", "the processes of the node")
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fds := []string{strconv.Itoa(fd)}
		if fd < 0 {
			if fds, err = names(filepath.Join("/proc", e.Name(), "fd")); err != nil {
				continue // it has ended
			}
		}
		for _, name := range fds {
			link, err := os.Readlink(filepath.Join("/proc", e.Name(), "fd", name))
			if err == nil && slices.Contains(paths, strings.TrimSuffix(link, " (deleted)")) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

func names(dir string) (out []string, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	out, err = d.Readdirnames(-1)
	return out, errors.Join(err, d.Close())
}

// Real is a path as the kernel names it: without links, as far as it is there.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(Real(dir), filepath.Base(path))
	}
	return path
}

// Kill kills a process and returns when it is gone. still is asked once no other process can be taken for it any more:
// whether it is the one that is meant. fault.Unavailable: it is killed and does not end.
func Kill(pid int, still func() bool, limit time.Duration) error {
	what := "process " + strconv.Itoa(pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "end", what)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if !still() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fault.Wrap(err, fault.Internal, "end", what)
	}
	for until := time.Now().Add(limit); ; {
		left := time.Until(until)
		if left <= 0 {
			return fault.New(fault.Unavailable, "end", what, "it was killed and has not ended after "+limit.String())
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fault.Wrap(err, fault.Internal, "wait for the end of", what)
		case n > 0:
			return nil
		}
	}
}

// Package unmount owns the node's own unmounting of what a storage plugin left mounted: in a process that can be
// killed, because the kernel may keep whoever unmounts waiting for ever. The node keeper imports it.
package unmount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/entry"
	"berth/internal/port/hostfs"
)

// patience is how long a helper may take, and how long a killed one may take to go.
const (
	patience = 30 * time.Second
	farewell = 2 * time.Second
)

// Unmounter starts helpers. A helper that neither ends nor can be killed is left behind; its path is not tried again
// before it has gone.
type Unmounter struct {
	// Program opens the helper program.
	Program func() (*os.File, error)
	// Path names the opened program for a child.
	Path func(*os.File) string

	mu    sync.Mutex
	stuck map[string]*helper
}

// helper is a process that unmounts.
type helper struct {
	cmd   *exec.Cmd
	pidfd int
	said  *os.File // the end of a pipe into which it writes why it failed
}

// Unmount takes a mount away if it is still the one on top of its path. An error leaves it unknown whether it is there.
func (u *Unmounter) Unmount(ctx context.Context, m entry.Mount) error {
	u.mu.Lock()
	h := u.stuck[m.Path]
	u.mu.Unlock()
	if h == nil {
		var err error
		if h, err = u.start(m); err != nil {
			return err
		}
	}
	ended := h.await(ctx, patience)
	if !ended {
		_ = h.cmd.Process.Kill() // it has not been waited for, so the number is still its own
		ended = h.await(context.WithoutCancel(ctx), farewell)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !ended {
		if u.stuck == nil {
			u.stuck = map[string]*helper{}
		}
		u.stuck[m.Path] = h
		return fault.New(fault.Unavailable, "unmount", m.Path,
			fmt.Sprintf("the kernel keeps process %d waiting that tries to, and it cannot be killed",
				h.cmd.Process.Pid))
	}
	delete(u.stuck, m.Path)
	return h.result(m)
}

func (u *Unmounter) start(m entry.Mount) (*helper, error) {
	program, err := u.Program()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	said, write, err := os.Pipe()
	if err != nil {
		return nil, fault.Wrap(err, fault.Exhausted, "make", "a pipe")
	}
	defer write.Close()
	h := &helper{said: said, pidfd: -1}
	h.cmd = exec.Command(u.Path(program), "unmount", m.Path, strconv.FormatUint(m.ID, 10), m.Device, m.Root)
	h.cmd.Stderr = write
	h.cmd.SysProcAttr = &unix.SysProcAttr{PidFD: &h.pidfd}
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "start", "the helper program"), said.Close())
	}
	if h.pidfd < 0 { // a kernel before 5.4
		err := fault.New(fault.Unsupported, "watch", "the helper program", "this kernel has no pidfds")
		return nil, errors.Join(err, h.cmd.Process.Kill(), said.Close())
	}
	return h, nil
}

// await waits until the process has ended, for a while and no longer than ctx.
func (h *helper) await(ctx context.Context, limit time.Duration) (ended bool) {
	stop, release, err := hostfs.StopFD(ctx)
	if err != nil {
		return false
	}
	defer release()
	for deadline := time.Now().Add(limit); ; {
		left := time.Until(deadline)
		if left < 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(h.pidfd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, int(left/time.Millisecond)+1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false
		case fds[0].Revents != 0:
			return true
		case fds[1].Revents != 0:
			return false
		}
	}
}

// result collects a process that has ended.
func (h *helper) result(m entry.Mount) error {
	text := make([]byte, 4096)
	n, _ := h.said.Read(text) // nothing to read says nothing
	err := h.cmd.Wait()
	_ = errors.Join(unix.Close(h.pidfd), h.said.Close()) // both are ours and were open
	if err == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "unmount", m.Path,
		strings.TrimPrefix(strings.TrimSpace(string(text[:n])), "berth-helper unmount: "))
}

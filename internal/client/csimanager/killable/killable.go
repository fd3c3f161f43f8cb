// Package killable owns processes of the helper program that may never return, because the kernel keeps whoever does
// their work waiting: they can be killed, and one that cannot is left behind. The csimanager's unmounting and its
// asking who holds a device import it.
package killable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

// farewell is how long a killed process may take to go.
const farewell = 2 * time.Second

// Helpers starts processes of the helper program. One that neither ends nor can be killed is left behind; what it was
// started for is not tried again before it has gone.
type Helpers struct {
	// Program opens the helper program.
	Program func() (*os.File, error)
	// Path names the opened program for a child.
	Path func(*os.File) string

	mu    sync.Mutex
	stuck map[string]*helper
}

// helper is one process.
type helper struct {
	cmd   *exec.Cmd
	pidfd int
	out   *os.File // the end of a pipe into which it writes what it finds
	said  *os.File // and of one for why it failed
}

// Run runs the helper in a role and returns what it has written, also with an error: it may have been killed in the
// middle, after its patience or with ctx. about names what it works on; of two processes about the same the first is
// waited for.
func (h *Helpers) Run(ctx context.Context, about string, patience time.Duration, args ...string) (string, error) {
	h.mu.Lock()
	p := h.stuck[about]
	h.mu.Unlock()
	if p == nil {
		var err error
		if p, err = h.start(args); err != nil {
			return "", err
		}
	}
	ended, killed := p.await(ctx, patience), false
	if !ended {
		killed = true
		_ = p.cmd.Process.Kill() // it has not been waited for, so the number is still its own
		ended = p.await(context.WithoutCancel(ctx), farewell)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ended {
		if h.stuck == nil {
			h.stuck = map[string]*helper{}
		}
		h.stuck[about] = p
		return "", fault.New(fault.Unavailable, args[0], about,
			fmt.Sprintf("the kernel keeps process %d waiting that tries to, and it cannot be killed",
				p.cmd.Process.Pid))
	}
	delete(h.stuck, about)
	return p.result(args[0], about, killed)
}

func (h *Helpers) start(args []string) (p *helper, err error) {
	program, err := h.Program()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	p = &helper{pidfd: -1}
	out, err := pipe(&p.out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	said, err := pipe(&p.said)
	if err != nil {
		return nil, errors.Join(err, p.out.Close())
	}
	defer said.Close()
	p.cmd = exec.Command(h.Path(program), args...)
	p.cmd.Stdout, p.cmd.Stderr = out, said
	p.cmd.SysProcAttr = &unix.SysProcAttr{PidFD: &p.pidfd}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "start", "the helper program"), p.close())
	}
	if p.pidfd < 0 { // a kernel before 5.4
		err := fault.New(fault.Unsupported, "watch", "the helper program", "this kernel has no pidfds")
		return nil, errors.Join(err, p.cmd.Process.Kill(), p.close())
	}
	return p, nil
}

func pipe(read **os.File) (write *os.File, err error) {
	*read, write, err = os.Pipe()
	return write, fault.Wrap(err, fault.Exhausted, "make", "a pipe")
}

func (p *helper) close() error { return errors.Join(p.out.Close(), p.said.Close()) }

// await waits until the process has ended, for a while and no longer than ctx.
func (p *helper) await(ctx context.Context, limit time.Duration) (ended bool) {
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
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
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

// result collects a process that has ended. What it wrote lies in the pipes: nobody else can write there any more.
func (p *helper) result(role, about string, killed bool) (string, error) {
	out, _ := io.ReadAll(p.out) // what cannot be read was not said
	text, _ := io.ReadAll(p.said)
	err := p.cmd.Wait()
	_ = errors.Join(unix.Close(p.pidfd), p.close()) // all are ours and were open
	switch {
	case err == nil:
		return string(out), nil
	case killed:
		return string(out), fault.New(fault.Timeout, role, about, "it took too long and was killed")
	}
	return string(out), fault.New(fault.Unavailable, role, about,
		strings.TrimPrefix(strings.TrimSpace(string(text)), "berth-helper "+role+": "))
}

// Package leased runs a program that must not run longer than somebody holds something: whoever started it says until
// when, again and again. A child process of its own stands between the two. It ends the program, with all that this has
// started, when the time has passed, or when whoever started it has ended, however: killed, too, or standing still.
// Programs that import it call Main where their zeroth argument is Role.
package leased

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Role is the zeroth argument under which a program is the child; no person can type it as a command.
const Role = "berth: lease"

// Streams are those of the program.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Terms are until when a program may run, by bootclock.Now, and how long it has from SIGTERM to SIGKILL.
type Terms struct{ Until, Grace time.Duration }

// Program is one that runs. Extend and Stop may be called while another goroutine waits.
type Program struct {
	cmd    *exec.Cmd
	lease  *os.File     // the child ends the program when nobody has this end any more
	others map[int]bool // children that this process had before
}

// Start starts a program with its arguments.
func Start(args []string, s Streams, t Terms) (*Program, error) {
	failed := func(err error) error {
		return fault.Wrap(err, fault.Internal, "start", "the process that keeps a lease")
	}
	// Should the child be killed, what the program had started comes to this process, which ends it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, failed(err)
	}
	others, err := children()
	if err != nil {
		return nil, failed(err)
	}
	end, lease, err := os.Pipe()
	if err != nil {
		return nil, failed(err)
	}
	defer end.Close()
	p := &Program{lease: lease, others: map[int]bool{}}
	for _, pid := range others {
		p.others[pid] = true
	}
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Args = append([]string{Role, number(t.Until), number(t.Grace)}, args...)
	p.cmd.Stdin = s.In
	p.cmd.Stdout, p.cmd.Stderr = s.Out, s.Err
	p.cmd.ExtraFiles = []*os.File{end}
	p.cmd.WaitDelay = time.Second // an input that nobody reads any more does not keep Wait
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(failed(err), lease.Close())
	}
	return p, nil
}

func number(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }

// Extend says until when it may run from now on.
func (p *Program) Extend(until time.Duration) error {
	_, err := p.lease.Write(binary.NativeEndian.AppendUint64(nil, uint64(until)))
	return fault.Wrap(err, fault.Internal, "tell", "the process that keeps a lease")
}

// Stop ends the program; Wait returns when it has ended.
func (p *Program) Stop() { _ = p.lease.Close() }

// Wait returns when neither the program nor what it has started runs any more. It returns the program's exit code, 128
// and the signal's number for one that a signal has ended.
func (p *Program) Wait() (int, error) {
	killed, err := p.childKilled()
	if err == nil && killed {
		err = p.endOrphans()
	}
	werr := p.cmd.Wait()
	p.Stop()
	var exit *exec.ExitError
	switch {
	case err != nil:
		return 1, err
	case killed:
		return 1, fault.New(fault.Internal, "run", p.cmd.Args[3], "the process that keeps its lease was killed, and "+
			"the program with it")
	case errors.As(werr, &exit):
		return exit.ExitCode(), nil
	case errors.Is(werr, exec.ErrWaitDelay):
		return p.cmd.ProcessState.ExitCode(), nil
	}
	return 0, werr
}

// childKilled waits for the end of the child, and tells whether that was a signal.
func (p *Program) childKilled() (bool, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		const exited = 1 // CLD_EXITED of signal.h
		return err == nil && info.Code != exited, fault.Wrap(err, fault.Internal, "wait for", "a program")
	}
}

// endOrphans ends what the child has left, which comes to this process.
func (p *Program) endOrphans() error {
	for {
		found, err := children()
		if err != nil {
			return fault.Wrap(err, fault.Internal, "look for", "what a program has left")
		}
		left := 0
		for _, pid := range found {
			if p.others[pid] || pid == p.cmd.Process.Pid {
				continue
			}
			left++
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				return fault.Wrap(err, fault.Internal, "end", "process "+strconv.Itoa(pid))
			}
			for {
				if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
					break
				}
			}
		}
		if left == 0 {
			return nil
		}
	}
}

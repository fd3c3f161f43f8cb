// Package watchdog owns the child process that thaws a file system when the plugin that froze it is dead, or hangs: a
// freeze outlives who made it, and its writers would hang until the next start of the plugin. The plugin calls Watch;
// cmd/berth runs Main in the child.
package watchdog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/descriptors"
)

// Role is the zeroth argument under which the program is the child; no person can type it as a command.
const Role = "berth: thaw"

// fiThaw is FITHAW of linux/fs.h, which x/sys does not name; the same on every architecture that Berth is built for.
const fiThaw = 0xC0045878

const (
	// readyLimit bounds the start of the child: nothing is frozen before.
	readyLimit = 30 * time.Second
	// margin is how much later than the plugin the child thaws: it is for a plugin that hangs.
	margin = time.Second
	// again is how often a child whose limit has passed tries: a freeze may be under way.
	again = time.Second
)

// ErrNotFrozen is a thaw of what is not frozen.
var ErrNotFrozen = errors.New("the file system is not frozen")

// Thaw ends the freeze of the file system on which f lies; ErrNotFrozen: there is none.
func Thaw(f *os.File) error { return thaw(int(f.Fd())) }

func thaw(fd int) error {
	err := unix.IoctlSetInt(fd, fiThaw, 0)
	if errors.Is(err, unix.EINVAL) {
		return ErrNotFrozen
	}
	return err
}

// Dog is a child that watches. Use Watch.
type Dog struct {
	cmd   *exec.Cmd
	leash *os.File // the child thaws when nobody has this end any more
}

// Watch starts a child that thaws the file system on which f lies when this process ends, however it ends, and after
// limit and a little more. It is called before the freeze, and watches when it returns.
func Watch(f *os.File, limit time.Duration) (*Dog, error) {
	d, err := watch(f, limit)
	if err != nil {
		return nil, fmt.Errorf("start the process that thaws if this one dies: %w", err)
	}
	return d, nil
}

func watch(f *os.File, limit time.Duration) (*Dog, error) {
	in, leash, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	ready, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, leash.Close())
	}
	defer ready.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{Role, strconv.FormatInt(limit.Milliseconds(), 10)}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Dir = "/" // it keeps no directory busy
	cmd.Stdin, cmd.Stdout = in, out
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to the plugin's group are not for it
	err = cmd.Start()
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, errors.Join(err, leash.Close())
	}
	d := &Dog{cmd: cmd, leash: leash}
	err = ready.SetReadDeadline(time.Now().Add(readyLimit))
	if err == nil {
		_, err = io.ReadFull(ready, make([]byte, 1))
	}
	if err != nil {
		return nil, errors.Join(err, d.Done())
	}
	return d, nil
}

// Done ends the child, which does nothing any more. The file system must be thawed.
func (d *Dog) Done() error {
	err := d.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = d.cmd.Wait() // that it was killed
	return errors.Join(err, d.leash.Close())
}

// Main is the child: it waits until its standard input ends, or the limit has passed, and thaws. It returns the exit
// code.
func Main() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	if len(os.Args) != 2 {
		return 1
	}
	limit, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		return 1
	}
	runtime.LockOSThread()
	_ = os.WriteFile("/proc/self/comm", []byte("berth-thaw"), 0) // for people who read ps
	if _, err := os.Stdout.Write([]byte{'!'}); err != nil {
		return 1 // the plugin is gone, and has frozen nothing
	}
	for left := time.Duration(limit)*time.Millisecond + margin; ; left = again {
		orphaned := awaitEnd(int(os.Stdin.Fd()), left)
		err := thaw(descriptors.First)
		if err != nil && !errors.Is(err, ErrNotFrozen) {
			fmt.Fprintln(os.Stderr, "a file system may still be frozen:", err)
		}
		if orphaned {
			return 0
		}
	}
}

// awaitEnd waits until the other end of a pipe is closed, for so long; true: it is closed.
func awaitEnd(fd int, left time.Duration) bool {
	end := time.Now().Add(left)
	for {
		wait := time.Until(end)
		if wait <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(wait.Milliseconds())+1); err == nil && n > 0 {
			return true // nothing is ever written to it
		}
	}
}

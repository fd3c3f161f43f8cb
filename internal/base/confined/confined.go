// Package confined owns work that somebody else wrote: files and templates are languages with loops, of which a hundred
// bytes can ask for hours and gigabytes. So each piece is done by a process of its own, the same program in another
// role, which has nothing but its input and its output, is bounded by the kernel, and ends with who asked for it.
//
// The agent calls Run; cmd/berth runs Main in the child.
package confined

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/privilege"
)

// Work is one kind of work: what it is called, and the bounds of one child.
type Work struct {
	Role string // the zeroth argument under which the program is the child; no person can type it as a command

	// For errors, as in: "evaluate the job file: evaluating it takes more than 2s of processor time".
	Verb, Object, Doing string
	Process             string // "the evaluation of a job file"
	Result              string // "the job that it yields"
	Smaller             string // the way out of every bound: what its author can do
	Elsewhere           string // the way out of faults, after a semicolon; may be empty

	// CPU is the processor time, of all its threads, in whole seconds; Wall how long it may take on a machine that is
	// busy with other things.
	CPU, Wall time.Duration
	// Memory is what it may map to be written, and by how much its addresses may grow, in bytes. A bound of the whole
	// address space would have to be above the 1.3 GB that Go's runtime reserves, and hardly uses, before main.
	Memory int64
	// Output bounds the answer, in bytes.
	Output int
}

// Run has a request worked on by a child and returns what that answers. The child ends with ctx. A fault of kind
// Invalid is the author's: the work has problems, or passes a bound.
func (w *Work) Run(ctx context.Context, request []byte) ([]byte, error) {
	var out []byte
	var runErr error // beside the group, which would put its name before the author's problems
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go(w.Verb+" "+w.Object, func() error {
		// The thread gives up its privileges and is thrown away. It is the child's parent: while it is there the child
		// lives.
		runtime.LockOSThread()
		out, runErr = w.run(gctx, request)
		return nil
	})
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return out, runErr
}

// run runs one child to its end.
func (w *Work) run(ctx context.Context, request []byte) ([]byte, error) {
	if err := surrender(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, w.Wall)
	defer cancel()
	out := &limited{max: w.Output + 1}
	cmd := exec.CommandContext(bounded, "/proc/self/exe")
	cmd.Args = []string{w.Role}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout = bytes.NewReader(request), out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cmd.ProcessState == nil:
		return nil, fault.Wrap(err, fault.Internal, "start", w.Process)
	case out.over:
		return nil, w.beyond(fmt.Sprintf("%s has more than %d bytes", w.Result, w.Output))
	case bounded.Err() != nil:
		return nil, w.beyond(fmt.Sprintf("%s took longer than %s", w.Doing, w.Wall))
	case err != nil:
		return nil, w.explain(cmd.ProcessState, err)
	}
	return w.answer(out.data)
}

// surrender makes whatever the thread starts next powerless, but for becoming another user.
func surrender() error {
	if os.Geteuid() != 0 {
		return errors.Join(privilege.DropInheritable(), privilege.ForbidNew())
	}
	return errors.Join(privilege.BoundCapabilities([]int{unix.CAP_SETUID, unix.CAP_SETGID}), privilege.ForbidNew())
}

// explain says which bound ended a child.
func (w *Work) explain(s *os.ProcessState, err error) error {
	status, ok := s.Sys().(syscall.WaitStatus)
	spent := s.UserTime() + s.SystemTime()
	switch {
	// The kernel bounds ticks, and then tells what it measured.
	case ok && status.Signaled() && spent >= w.CPU/2:
		return w.beyond(fmt.Sprintf("%s takes more than %s of processor time", w.Doing, w.CPU))
	case ok && status.Signaled():
		return fault.WithHint(
			fault.New(fault.Unavailable, w.Verb, w.Object,
				"its process was ended from outside by "+status.Signal().String()),
			"the machine may be short of memory"+w.Elsewhere)
	case s.ExitCode() > 1: // Go's runtime can't go on: its code is 2, or 66 with the race detector
		return w.beyond(fmt.Sprintf("%s takes more than %d MiB of memory", w.Doing, w.Memory>>20))
	}
	return fault.Wrap(err, fault.Internal, w.Verb, w.Object)
}

func (w *Work) beyond(text string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", w.Object, text), w.Smaller)
}

// limited is a child's output up to a size.
type limited struct {
	data []byte
	max  int
	over bool
}

var errOver = errors.New("the output is too large")

// Write implements io.Writer; its error ends the child.
func (l *limited) Write(b []byte) (int, error) {
	if l.over = l.over || len(l.data)+len(b) > l.max; l.over {
		return 0, errOver
	}
	l.data = append(l.data, b...)
	return len(b), nil
}

// answer is what a child said.
func (w *Work) answer(data []byte) ([]byte, error) {
	if len(data) > 0 {
		switch text := data[1:]; data[0] {
		case isResult:
			return text, nil
		case isProblem:
			return nil, fault.New(fault.Invalid, "", "", string(text))
		case isFault:
			return nil, fault.New(fault.Internal, w.Verb, w.Object, string(text))
		}
	}
	return nil, fault.New(fault.Internal, "read", "the answer of "+w.Process, "it is cut off")
}

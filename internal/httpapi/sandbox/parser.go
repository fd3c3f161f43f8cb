package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
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

// Bounds of all children together.
const (
	// atOnce is how many run; the memory of all is within the bound of one times this.
	atOnce = 2
	// waiting is how many requests wait for their turn, and patience for how long.
	waiting  = 32
	patience = 10 * time.Second
	// wall is how long one may take on a machine that is busy with other things.
	wall = 20 * time.Second
	// maxOutput bounds what a child may answer: a job of this size is refused at registration.
	maxOutput = 8 << 20
)

// elsewhere is the way out of every bound.
const elsewhere = "write the file with fewer or smaller loops; or evaluate it where you are, which asks no server, " +
	"with: berth job run FILE"

// Parser evaluates job files in children.
type Parser struct {
	program string
	turns   chan struct{} // a token for each that runs
	queue   chan struct{} // a token for each that waits or runs
	wall    time.Duration // of one
}

// New returns a parser. It starts nothing.
func New() *Parser {
	return &Parser{
		program: "/proc/self/exe",
		turns:   make(chan struct{}, atOnce),
		queue:   make(chan struct{}, atOnce+waiting),
		wall:    wall,
	}
}

// Parse evaluates a job file and returns the job as JSON. The child ends with ctx. A fault of kind Invalid is the
// author's: the file has problems, or evaluating it passes a bound. Busy: too many are being evaluated.
func (p *Parser) Parse(ctx context.Context, req *Request) (json.RawMessage, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	input, err := json.Marshal(req)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode", "a job file")
	}
	var out json.RawMessage
	var runErr error // beside the group, which would put its name before the author's problems
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("evaluate a job file", func() error {
		// The thread gives up its privileges and is thrown away. It is the child's parent: while it is there the child
		// lives.
		runtime.LockOSThread()
		out, runErr = p.run(gctx, input)
		return nil
	})
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return out, runErr
}

// enter waits for a turn.
func (p *Parser) enter(ctx context.Context) (leave func(), err error) {
	busy := func(text string) error {
		return fault.WithHint(fault.New(fault.Busy, "evaluate", "the job file", text),
			"try again later; or evaluate it where you are, with: berth job run FILE")
	}
	select {
	case p.queue <- struct{}{}:
	default:
		return nil, busy(fmt.Sprintf("%d others are being evaluated or wait for it", atOnce+waiting))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p.turns <- struct{}{}:
		return func() { <-p.turns; <-p.queue }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = busy(fmt.Sprintf("others were being evaluated for %s", patience))
	}
	<-p.queue
	return nil, err
}

// run runs one child to its end.
func (p *Parser) run(ctx context.Context, input []byte) (json.RawMessage, error) {
	if err := surrender(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, p.wall)
	defer cancel()
	out := &limited{max: maxOutput}
	cmd := exec.CommandContext(bounded, p.program)
	cmd.Args = []string{Role}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cmd.ProcessState == nil:
		return nil, fault.Wrap(err, fault.Internal, "start", "the evaluation of a job file")
	case out.over:
		return nil, beyond(fmt.Sprintf("the job that it yields has more than %d bytes", maxOutput))
	case bounded.Err() != nil:
		return nil, beyond(fmt.Sprintf("evaluating it took longer than %s", p.wall))
	case err != nil:
		return nil, explain(cmd.ProcessState, err)
	}
	return out.reply()
}

// surrender makes whatever the thread starts next powerless, but for becoming another user.
func surrender() error {
	if os.Geteuid() != 0 {
		return errors.Join(privilege.DropInheritable(), privilege.ForbidNew())
	}
	return errors.Join(privilege.BoundCapabilities([]int{unix.CAP_SETUID, unix.CAP_SETGID}), privilege.ForbidNew())
}

// explain says which bound ended a child.
func explain(s *os.ProcessState, err error) error {
	status, ok := s.Sys().(syscall.WaitStatus)
	spent := s.UserTime() + s.SystemTime()
	switch {
	case ok && status.Signaled() && spent >= CPU-CPU/10: // the kernel counts in ticks
		return beyond(fmt.Sprintf("evaluating it takes more than %s of processor time", CPU))
	case ok && status.Signaled():
		return fault.WithHint(
			fault.New(fault.Unavailable, "evaluate", "the job file",
				"its process was ended from outside by "+status.Signal().String()),
			"the machine may be short of memory; or evaluate it where you are, with: berth job run FILE")
	case s.ExitCode() > 1: // Go's runtime can't go on: its code is 2, or 66 with the race detector
		return beyond(fmt.Sprintf("evaluating it takes more than %d MiB of memory", Memory>>20))
	}
	return fault.Wrap(err, fault.Internal, "evaluate", "the job file")
}

func beyond(text string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", "the job file", text), elsewhere)
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

func (l *limited) reply() (json.RawMessage, error) {
	var r reply
	if err := json.Unmarshal(l.data, &r); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the answer of the evaluation of a job file")
	}
	switch {
	case r.Fault != "":
		return nil, fault.New(fault.Internal, "evaluate", "the job file", r.Fault)
	case r.Problem != "":
		return nil, fault.New(fault.Invalid, "", "", r.Problem)
	}
	return r.Job, nil
}

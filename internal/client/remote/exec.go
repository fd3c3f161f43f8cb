package remote

import (
	"context"
	"errors"
	"io"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/wire"
)

type execStream = wire.Stream[wire.ExecOutput, wire.ExecInput]

// execute runs a command in a task and carries its input, output and exit over a stream.
func (m *Methods) execute(s *execStream, live driver.Task, r *wire.AllocExecRequest) error {
	in, stdin := io.Pipe()
	out := &execOut{s: s}
	resize := make(chan driver.WindowSize, 4)
	req := driver.ExecRequest{
		Command: r.Command,
		TTY:     r.TTY,
		Stdin:   in,
		Resize:  resize,
		Stdout:  out.stdout(),
	}
	if !r.TTY {
		req.Stderr = out.stderr()
	}
	// The reader ends when the stream does, which is after this handler has returned: the node joins it, not the call.
	if !m.streams.Go("read input of a command", func() error { readInput(s, stdin, resize); return nil }) {
		return fault.New(fault.Unavailable, "run a command", "", "the agent stops")
	}
	defer func() { _ = in.Close() }() // a pipe in memory
	res, err := live.Exec(s.Context(), req)
	if err != nil {
		return err
	}
	code := res.ExitCode
	if res.Signal != 0 {
		code = 128 + res.Signal // as shells tell it
	}
	return out.send(&wire.ExecOutput{Exited: true, ExitCode: code})
}

// readInput hands the caller's input to the command until either ends.
func readInput(s *execStream, stdin *io.PipeWriter, resize chan<- driver.WindowSize) {
	for {
		m, err := s.Recv()
		if err != nil {
			_ = stdin.CloseWithError(io.EOF) // always nil
			return
		}
		if m.Height > 0 && m.Width > 0 {
			select {
			case resize <- driver.WindowSize{Height: m.Height, Width: m.Width}:
			default: // the command does not look: a later size will do
			}
		}
		if len(m.Stdin) > 0 {
			if _, err := stdin.Write(m.Stdin); err != nil {
				continue // the command does not read any more; go on so that the stream is drained
			}
		}
		if m.CloseStdin {
			_ = stdin.Close() // always nil
		}
	}
}

// execOut sends what a command writes; both streams share one sender.
type execOut struct {
	mu sync.Mutex
	s  *execStream
}

func (o *execOut) send(m *wire.ExecOutput) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.s.Send(m)
}

func (o *execOut) stdout() io.Writer {
	return writerFunc(func(p []byte) error { return o.send(&wire.ExecOutput{Stdout: p}) })
}

func (o *execOut) stderr() io.Writer {
	return writerFunc(func(p []byte) error { return o.send(&wire.ExecOutput{Stderr: p}) })
}

type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) {
	if err := f(p); err != nil {
		if errors.Is(err, context.Canceled) {
			return 0, io.ErrClosedPipe
		}
		return 0, err
	}
	return len(p), nil
}

package external

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/pluginproto/driverpb"
)

// maxChunk is how much of a stream one message carries; bytes.
const maxChunk = 32 << 10

// Exec implements driver.Task.
func (t *task) Exec(ctx context.Context, req driver.ExecRequest) (driver.ExitResult, error) {
	s, err := t.connection(ctx)
	if err != nil {
		return driver.ExitResult{}, err
	}
	if !s.caps.GetExec() {
		return driver.ExitResult{}, fault.New(fault.Unsupported, "run a command in", subject(t.id),
			"its driver cannot run commands in a task")
	}
	r, err := s.stream(ctx, t.id, req)
	if status.Code(err) == codes.Unimplemented && !req.TTY && req.Stdin == nil {
		r, err = s.run(ctx, t.id, req)
	}
	if ctx.Err() != nil {
		return driver.ExitResult{}, ctx.Err()
	}
	return r, problem(err, "run a command in", subject(t.id))
}

// run is for plugins that stream nothing.
func (s *connection) run(ctx context.Context, id string, req driver.ExecRequest) (driver.ExitResult, error) {
	call := &driverpb.ExecTaskRequest{TaskId: id, Command: req.Command}
	if at, ok := ctx.Deadline(); ok {
		call.Timeout = durationpb.New(time.Until(at))
	}
	answer, err := s.rpc.ExecTask(ctx, call)
	if err != nil {
		return driver.ExitResult{}, err
	}
	return execExit(answer.GetResult()), errors.Join(write(req.Stdout, answer.GetStdout()),
		write(req.Stderr, answer.GetStderr()))
}

// stream runs a command with its streams. It ends when the plugin says so; who still writes to the command then has
// nobody who reads it.
func (s *connection) stream(ctx context.Context, id string, req driver.ExecRequest) (driver.ExitResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.rpc.ExecTaskStreaming(ctx)
	if err != nil {
		return driver.ExitResult{}, err
	}
	if err := stream.Send(&driverpb.ExecTaskStreamingRequest{Setup: &driverpb.ExecTaskStreamingRequest_Setup{
		TaskId:  id,
		Command: req.Command,
		Tty:     req.TTY,
	}}); err != nil && !errors.Is(err, io.EOF) { // then the answer says why
		return driver.ExitResult{}, err
	}
	// Not waited for: a read of Stdin ends when its owner ends it.
	in, ictx := lifecycle.NewGroup(ctx)
	defer in.Stop()
	out := make(chan *driverpb.ExecTaskStreamingRequest)
	send := func(m *driverpb.ExecTaskStreamingRequest) bool {
		select {
		case out <- m:
			return true
		case <-ictx.Done():
			return false
		}
	}
	in.Go("to the command", func() error {
		for {
			select {
			case <-ictx.Done():
				return nil
			case m := <-out:
				if stream.Send(m) != nil {
					return nil // the answer says why
				}
			}
		}
	})
	in.Go("stdin", func() error { return feed(req.Stdin, send) })
	in.Go("sizes", func() error { return sizes(ictx, req.Resize, send) })
	r, err := receive(stream, req)
	if closer, ok := req.Stdin.(io.Closer); ok {
		_ = closer.Close() // it may be closed already
	}
	return r, err
}

func sizes(
	ctx context.Context, all <-chan driver.WindowSize, send func(*driverpb.ExecTaskStreamingRequest) bool,
) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case size, ok := <-all:
			if !ok {
				return nil
			}
			send(&driverpb.ExecTaskStreamingRequest{TtySize: &driverpb.ExecTaskStreamingRequest_TerminalSize{
				Height: int32(size.Height),
				Width:  int32(size.Width),
			}})
		}
	}
}

// feed passes the input on.
func feed(in io.Reader, send func(*driverpb.ExecTaskStreamingRequest) bool) error {
	op := func(data []byte, end bool) bool {
		return send(&driverpb.ExecTaskStreamingRequest{
			Stdin: &driverpb.ExecTaskStreamingIOOperation{Data: data, Close: end},
		})
	}
	for in != nil {
		buf := make([]byte, maxChunk)
		n, err := in.Read(buf)
		if n > 0 && !op(buf[:n], false) {
			return nil
		}
		if err != nil {
			break // its end, or nobody gives any more: for the command it is the same
		}
	}
	op(nil, true)
	return nil
}

func receive(
	stream driverpb.Driver_ExecTaskStreamingClient, req driver.ExecRequest,
) (driver.ExitResult, error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return driver.ExitResult{}, fault.New(fault.Unavailable, "", "", "the plugin did not say how it ended")
		}
		if err != nil {
			return driver.ExitResult{}, err
		}
		if err := errors.Join(write(req.Stdout, m.GetStdout().GetData()),
			write(req.Stderr, m.GetStderr().GetData())); err != nil {
			return driver.ExitResult{}, err
		}
		if m.GetExited() {
			return execExit(m.GetResult()), nil
		}
	}
}

func write(w io.Writer, data []byte) error {
	if w == nil || len(data) == 0 {
		return nil
	}
	_, err := w.Write(data)
	return fault.Wrap(err, fault.Unavailable, "write", "output")
}

func execExit(r *driverpb.ExitResult) driver.ExitResult {
	return driver.ExitResult{ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), Ended: time.Now()}.Told()
}

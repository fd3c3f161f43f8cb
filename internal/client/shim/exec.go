package shim

import (
	"context"
	"errors"
	"io"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// Exec implements driver.Inspector. It returns when the command has ended; a Stdin that is an io.Closer is closed then,
// so that nobody reads from it any more.
func (p *process) Exec(ctx context.Context, req driver.ExecRequest) (driver.ExitResult, error) {
	fail := func(err error) (driver.ExitResult, error) {
		return driver.ExitResult{}, fault.Note(err, "exec in", p.subject())
	}
	c, err := dial(ctx, p.handle.Socket)
	if err != nil {
		return fail(err)
	}
	defer c.close()
	m := &shimproto.Exec{Named: p.named(), Argv: req.Command, TTY: req.TTY}
	select {
	case size := <-req.Resize: // the first size, if it is there already
		m.Height, m.Width = size.Height, size.Width
	default:
	}
	err = c.ask(ctx, shimproto.TypeExec, m, nil)
	if over := (*endedError)(nil); errors.As(err, &over) {
		err = fault.Wrap(err, fault.Conflict, "", "")
	}
	if err != nil {
		return fail(err)
	}
	// Not waited for: a read of Stdin ends when its owner ends it. Whatever it still sends goes to a closed connection.
	in, ictx := lifecycle.NewGroup(ctx)
	defer in.Stop()
	in.Go("exec stdin", func() error { return sendInput(c, req.Stdin) })
	in.Go("exec resize", func() error { return sendSizes(ictx, c, req.Resize) })
	exit, err := receiveOutput(c, req)
	if closer, ok := req.Stdin.(io.Closer); ok {
		_ = closer.Close() // it may be closed already
	}
	if err != nil {
		return fail(c.cause(ctx, err))
	}
	return exit, nil
}

func sendInput(w io.Writer, stdin io.Reader) error {
	if stdin != nil {
		buf := make([]byte, shimproto.MaxChunk)
		for {
			n, err := stdin.Read(buf)
			if n > 0 {
				if err := shimproto.WriteRaw(w, shimproto.TypeStdin, buf[:n]); err != nil {
					return err
				}
			}
			if err != nil {
				break // whatever ended the input, the command sees its end
			}
		}
	}
	return shimproto.WriteRaw(w, shimproto.TypeStdinClose, nil)
}

func sendSizes(ctx context.Context, w io.Writer, sizes <-chan driver.WindowSize) error {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return nil
			}
			if err := shimproto.Write(w, shimproto.TypeResize,
				&shimproto.Resize{Height: size.Height, Width: size.Width}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// receiveOutput hands on what the command prints until its exit comes.
func receiveOutput(c *conn, req driver.ExecRequest) (driver.ExitResult, error) {
	for {
		t, payload, err := shimproto.Read(c)
		if err != nil {
			return driver.ExitResult{}, err
		}
		switch t {
		case shimproto.TypeStdout:
			err = write(req.Stdout, payload)
		case shimproto.TypeStderr:
			err = write(req.Stderr, payload)
		case shimproto.TypeExit:
			var m shimproto.Exit
			if err := shimproto.Unmarshal(payload, &m); err != nil {
				return driver.ExitResult{}, err
			}
			return exitResult(&m), nil
		case shimproto.TypeFault:
			var f shimproto.Fault
			return driver.ExitResult{}, errors.Join(shimproto.Unmarshal(payload, &f), f.Err())
		}
		if err != nil {
			return driver.ExitResult{}, err
		}
	}
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(b)
	return err
}

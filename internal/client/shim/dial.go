package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// errGone says that nobody serves a shim's socket any more.
var errGone = errors.New("the shim has ended")

// endedError is the answer that the attempt which a request is about has ended.
type endedError struct{ shimproto.Ended }

func (*endedError) Error() string { return "it has ended" }

// helloLimit bounds how long a shim may take for its first answer: it may just have been started on a busy machine.
const helloLimit = 20 * time.Second

// conn is one conversation with a shim.
type conn struct {
	net.Conn
	hello shimproto.HelloReply
	pid   int // of the shim
	stop  func() bool
}

// dial opens a conversation. Ending ctx ends it, at any point. errGone: no shim is there.
func dial(ctx context.Context, socket string) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
			err = errors.Join(errGone, err)
		}
		return nil, fault.Wrap(err, fault.Unavailable, "reach", "shim at "+socket)
	}
	c := &conn{Conn: nc}
	c.stop = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	if err := c.greet(); err != nil {
		c.close()
		return nil, fault.Note(c.cause(ctx, err), "greet", "shim at "+socket)
	}
	return c, nil
}

func (c *conn) close() {
	c.stop()
	_ = c.Close() // the conversation is over
}

func (c *conn) greet() error {
	if err := c.peerIsMine(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(helloLimit)); err != nil {
		return err
	}
	if err := shimproto.Write(c, shimproto.TypeHello,
		&shimproto.Hello{Min: shimproto.MinVersion, Max: shimproto.Version}); err != nil {
		return err
	}
	if err := c.receive(shimproto.TypeHelloReply, &c.hello); err != nil {
		return c.unanswered(err)
	}
	return c.SetReadDeadline(time.Time{})
}

// unanswered names the shim that has kept a greeting waiting, and what a person can do.
func (c *conn) unanswered(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fault.WithHint(fmt.Errorf("the shim, process %d, has not answered for %s: %w", c.pid, helloLimit, err),
		fmt.Sprintf("if it was stopped (state T in /proc/%d/status), have it go on: kill -CONT %d", c.pid, c.pid))
}

// peerIsMine refuses a socket that another user put there.
func (c *conn) peerIsMine() error {
	raw, err := c.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return err
	}
	c.pid = int(cred.Pid)
	if int(cred.Uid) != os.Geteuid() {
		return fault.New(fault.Denied, "", "", "the socket belongs to another user")
	}
	return nil
}

// receive reads one frame of the wanted type, or the error that was sent instead.
func (c *conn) receive(want shimproto.Type, m shimproto.Message) error {
	t, payload, err := shimproto.Read(c)
	switch {
	case ended(err):
		return errors.Join(errGone, err)
	case err != nil:
		return err
	case t == shimproto.TypeFault:
		var f shimproto.Fault
		if err := shimproto.Unmarshal(payload, &f); err != nil {
			return err
		}
		return f.Err()
	case t == shimproto.TypeEnded:
		e := &endedError{}
		if err := shimproto.Unmarshal(payload, &e.Ended); err != nil {
			return err
		}
		return e
	case t != want:
		return fault.New(fault.Internal, "", "", "the shim sent an unexpected frame")
	case m == nil:
		return nil
	}
	return shimproto.Unmarshal(payload, m)
}

func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE)
}

// cause is why a conversation failed: the end of ctx, if that was it.
func (c *conn) cause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	if ended(err) {
		return errors.Join(errGone, err)
	}
	return err
}

// goneKind is the kind of an error of a conversation: NotFound when there is no shim.
func goneKind(err error) fault.Kind {
	if errors.Is(err, errGone) {
		return fault.NotFound
	}
	return fault.KindOf(err)
}

// ask sends one request and waits for its answer.
func ask(ctx context.Context, socket string, t shimproto.Type, m, reply shimproto.Message) error {
	c, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	defer c.close()
	return c.ask(ctx, t, m, reply)
}

func (c *conn) ask(ctx context.Context, t shimproto.Type, m, reply shimproto.Message) error {
	err := shimproto.Write(c, t, m)
	if err == nil {
		err = c.receive(shimproto.TypeDone, reply)
	}
	return c.cause(ctx, err)
}

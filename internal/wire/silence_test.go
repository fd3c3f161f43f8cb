package wire_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// swallowing is a connection that carries nothing any more once lost is set, and never says that it ended, not even
// when the other end closes it: as though the other machine had lost its power.
type swallowing struct {
	net.Conn
	lost   *atomic.Bool
	closed chan struct{}
	once   *sync.Once
}

func swallows(c net.Conn, lost *atomic.Bool) swallowing {
	return swallowing{c, lost, make(chan struct{}), &sync.Once{}}
}

func (c swallowing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lost.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c swallowing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c swallowing) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestWhoFallsSilentIsGivenUp: given a call that waits, when the network drops everything without a word, then both
// ends notice: the call fails, and so does the handler's wait.
func TestWhoFallsSilentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		entered, ended := make(chan struct{}), make(chan struct{})
		s := wire.NewServer(nil)
		pingMethod.Serve(s, func(ctx context.Context, _ *ping) (*ping, error) {
			close(entered)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		})
		pipe := wire.NewPipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, silent{pipe.Listener(), &lost}) }()
		conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
			c, err := pipe.Dial(ctx)
			return swallows(c, &lost), err
		})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			long, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, err := pingMethod.Call(long, conn, &ping{})
			answer <- err
		}()
		<-entered
		lost.Store(true)
		if err := <-answer; !fault.Has(err, fault.Unavailable) {
			t.Errorf("the call ends with %v, want that the server is not reached", err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the server waits on for a client that is gone")
		}
		_ = conn.Close() // what it writes is lost
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// silent is a listener whose connections swallow.
type silent struct {
	net.Listener
	lost *atomic.Bool
}

func (l silent) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return swallows(c, l.lost), nil
}

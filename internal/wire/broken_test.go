package wire_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// Given a server that passes a call on to another one, when the connection breaks under the call, then the answer names
// that server, and says that a change may have been made; when there is no connection, that nothing was asked; and what
// that server answers itself stays as it is.
func TestABrokenConnectionNamesTheServer(t *testing.T) {
	pipe := wire.NewPipe()
	first, dialled := make(chan net.Conn, 1), atomic.Bool{}
	conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errors.New("no way")
		}
		c, err := pipe.Dial(ctx)
		first <- c
		return c, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewServer(nil)
	pingMethod.Serve(s, func(ctx context.Context, p *ping) (*ping, error) {
		if p.Text == "refuse" {
			return nil, fault.New(fault.Unavailable, "ping", "me", "I rest")
		}
		_ = (<-first).Close() // as when this server is killed
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, pipe.Listener()) }()
	t.Cleanup(func() {
		_ = conn.Close() // its only connection is broken
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct{ text, says, not string }{
		{"refuse", "ping me: I rest", "server b"},
		{"break", "may have been done or not", "nothing was asked"},
		{"again", "nothing was asked", "may have been done"},
	} {
		_, err := pingMethod.Call(t.Context(), wire.Through(conn, "a", "b"), &ping{Text: c.text})
		if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %v", c.text, err)
		}
		if c.text != "refuse" && !strings.Contains(err.Error(), "ask server b: it does not answer: ") {
			t.Errorf("%s: the server is not named: %v", c.text, err)
		}
	}
}

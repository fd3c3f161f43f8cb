package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// TestABrokenStreamNamesTheServer: given a server that passes a stream on to another one, when the connection breaks
// under it, then its end names that server, and says that a change may have been made; when there is no connection,
// that nothing was asked; and what that server says itself stays as it is.
func TestABrokenStreamNamesTheServer(t *testing.T) {
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
	streamMethod.Serve(s, func(p *ping, stream *wire.Stream[ping, ping]) error {
		if p.Text == "refuse" {
			return fault.New(fault.Unavailable, "ping", "me", "I rest")
		}
		_ = (<-first).Close() // as when this server is killed
		<-stream.Context().Done()
		return stream.Context().Err()
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
		stream, err := streamMethod.Open(t.Context(), wire.Through(conn, "a", "b"), &ping{Text: c.text})
		if err == nil {
			_, err = stream.Recv()
		}
		if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %v", c.text, err)
		}
		if c.text != "refuse" && !strings.Contains(err.Error(), "ask server b: it does not answer: ") {
			t.Errorf("%s: the server is not named: %v", c.text, err)
		}
	}
}

// TestARelayedStreamIsAsTheOneBehindIt: given a server that passes a stream on, then messages reach the far end, and
// that the caller has no more; and the caller hears its answers, and how it ended.
func TestARelayedStreamIsAsTheOneBehindIt(t *testing.T) {
	for name, end := range map[string]error{"well": nil, "badly": fault.New(fault.Busy, "ping", "me", "I rest")} {
		t.Run(name, func(t *testing.T) {
			far := wire.NewServer(nil)
			streamMethod.Serve(far, func(p *ping, stream *wire.Stream[ping, ping]) error {
				for {
					m, err := stream.Recv()
					if errors.Is(err, io.EOF) {
						return end
					}
					if err == nil {
						err = stream.Send(&ping{Text: p.Text + " " + m.Text})
					}
					if err != nil {
						return err
					}
				}
			})
			to := serve(t, far)
			near := wire.NewServer(nil)
			streamMethod.Serve(near, func(p *ping, stream *wire.Stream[ping, ping]) error {
				return streamMethod.Relay(stream.Context(), wire.Through(to, "a", "b"), p, stream)
			})
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			stream, err := streamMethod.Open(ctx, serve(t, near), &ping{Text: "to"})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"one", "two"} {
				if err := stream.Send(&ping{Text: text}); err != nil {
					t.Fatal(err)
				}
				if m, err := stream.Recv(); err != nil || m.Text != "to "+text {
					t.Fatalf("it answers %+v: %v", m, err)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			switch _, err := stream.Recv(); {
			case end == nil && !errors.Is(err, io.EOF):
				t.Errorf("it ends with %v", err)
			case end != nil && (!fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), "ping me: I rest")):
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// soon is how long a test waits for what comes at once.
const soon = 30 * time.Second

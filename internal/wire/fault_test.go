package wire_test

import (
	"cmp"
	"context"
	"io"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

type ping struct{ Text string }

var (
	pingMethod   = wire.Unary[ping, ping]("Test.Ping")
	streamMethod = wire.Bidi[ping, ping, ping]("Test.Stream")
)

// serve runs a server over a pipe and returns a connection to it.
func serve(t *testing.T, s *wire.Server) wire.Conn {
	t.Helper()
	pipe := wire.NewPipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, pipe.Listener()) }()
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestAFaultKeepsItsIdentityAcrossTheHop(t *testing.T) {
	long := strings.Repeat("x", 300) // its CBOR length needs bytes that are no UTF-8
	for _, kind := range fault.Kinds() {
		s := wire.NewServer(nil)
		pingMethod.Serve(s, func(context.Context, *ping) (*ping, error) {
			return nil, fault.WithHint(fault.New(kind, "stage", `volume "ä"`, long), "wait")
		})
		_, err := pingMethod.Call(t.Context(), serve(t, s), &ping{})
		if got := fault.KindOf(err); got != kind {
			t.Errorf("kind %s arrived as %s", kind, got)
		}
		if err == nil || !strings.Contains(err.Error(), `stage volume "ä": `+long) ||
			!strings.Contains(err.Error(), "(wait)") {
			t.Errorf("the text arrived as %v", err)
		}
	}
}

func TestAPanicInAHandlerIsAFault(t *testing.T) {
	s := wire.NewServer(nil)
	pingMethod.Serve(s, func(context.Context, *ping) (*ping, error) { panic("boom") })
	_, err := pingMethod.Call(t.Context(), serve(t, s), &ping{})
	if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("got %v", err)
	}
}

// TestAStreamIsCanceledByItsCallerAlone: given a stream, when the other side ends it with the word of a caller, or the
// connection is closed under it, then its caller hears that the other side is gone; what it canceled itself is
// canceled.
func TestAStreamIsCanceledByItsCallerAlone(t *testing.T) {
	for name, c := range map[string]struct {
		handler error // nil: it goes on
		end     func(hangUp func(), conn io.Closer)
		want    fault.Kind
	}{
		"a handler that is stopped":   {handler: context.Canceled, want: fault.Unavailable},
		"a handler that was canceled": {handler: fault.New(fault.Canceled, "", "", "x"), want: fault.Unavailable},
		"the connection is closed": {
			end:  func(_ func(), conn io.Closer) { _ = conn.Close() },
			want: fault.Unavailable,
		},
		"the caller hangs up": {end: func(hangUp func(), _ io.Closer) { hangUp() }, want: fault.Canceled},
		"another error":       {handler: fault.New(fault.Busy, "", "", "x"), want: fault.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			s := wire.NewServer(nil)
			streamMethod.Serve(s, func(_ *ping, out *wire.Stream[ping, ping]) error {
				if err := out.Send(&ping{}); err != nil || c.handler != nil {
					return cmp.Or(c.handler, err)
				}
				<-out.Context().Done()
				return out.Context().Err()
			})
			conn := serve(t, s)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			stream, err := streamMethod.Open(ctx, conn, &ping{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			if c.end != nil {
				c.end(hangUp, conn.(io.Closer))
			}
			if _, err := stream.Recv(); fault.KindOf(err) != c.want {
				t.Errorf("the caller hears: %v", err)
			}
		})
	}
}

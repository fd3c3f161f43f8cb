package wire_test

import (
	"context"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

type ping struct{ Text string }

var pingMethod = wire.Unary[ping, ping]("Test.Ping")

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

package server

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/server/keyring"
	"berth/internal/wire"
)

// known is a listener of connections of which it is known who is at the other end.
type known struct {
	net.Listener
	who trust.Peer
}

// Accept implements net.Listener.
func (l known) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return knownConn{c, l.who}, err
}

type knownConn struct {
	net.Conn
	who trust.Peer
}

// Peer tells who is at the other end.
func (c knownConn) Peer() trust.Peer { return c.who }

// serves runs a server until the test ends, and returns the connection of its own agent and those of others.
func serves(t *testing.T, cfg Config, others ...trust.Principal) (s *Server, here wire.Conn, there []wire.Conn) {
	t.Helper()
	cfg.DataDir = t.TempDir()
	cfg.Raft.SegmentSize, cfg.Raft.Reserve = 1<<20, 1<<20
	s = New(cfg)
	connected := func(c *grpc.ClientConn, err error) wire.Conn {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // in-process
		return c
	}
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	var calls []net.Listener
	for _, who := range others {
		pipe := wire.NewPipe()
		calls = append(calls, known{pipe.Listener(), trust.Peer{Principal: who}})
		there = append(there, connected(wire.Connect(pipe.Dial)))
	}
	g.Go("server", func() error { return s.Run(ctx, Listeners{Calls: calls}) })
	here = connected(s.Connect())
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, here, there
}

// TestWhoCallsMayCallThat: of all methods that a server answers, those that go on to nodes and those that are made
// later among them, a caller from another machine gets to none but those that say that anybody does: a node to none
// without its own name in it, a server that passes nothing on and who has no certificate to none.
func TestWhoCallsMayCallThat(t *testing.T) {
	for _, who := range []trust.Principal{
		{Role: trust.Node, ID: ids.New()}, {Role: trust.Server, ID: "s9"}, {Role: trust.Stranger},
	} {
		s := New(Config{DataDir: t.TempDir()})
		ring, err := keyring.Create(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		all, open := s.methods(s.components(ring))
		if got := open.Methods(); len(got) != 1 || got[0] != wire.TrustCertify.Name() {
			t.Errorf("without a certificate these are reached: %v", got)
		}
		pipe := wire.NewPipe()
		g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
		g.Go("calls", func() error { return all.Run(ctx, known{pipe.Listener(), trust.Peer{Principal: who}}) })
		conn, err := wire.Connect(pipe.Dial)
		if err != nil {
			t.Fatal(err)
		}
		methods := all.Methods()
		if len(methods) < 70 {
			t.Fatalf("only %d methods", len(methods))
		}
		for _, path := range methods {
			if path == wire.TrustCertify.Name() {
				continue
			}
			name := strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
			// Who may call what waits would wait here.
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := wire.Unary[wire.Empty, wire.Empty](name).Call(soon, conn, &wire.Empty{})
			cancel()
			if !fault.Has(err, fault.Denied) {
				t.Errorf("%s calls %s: %v", who, name, err)
				break // a call that waits takes its whole time
			}
		}
		_ = conn.Close() // in-process
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

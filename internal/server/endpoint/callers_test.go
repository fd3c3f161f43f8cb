package endpoint

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/server/controllers"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
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

// TestWhoCallsMayCallThat: of all methods, those that are made later among them, a caller from another machine gets to
// none but those that say that anybody does: a node only to those of nodes, for itself; a server that passes nothing on
// and who has no certificate to none.
func TestWhoCallsMayCallThat(t *testing.T) {
	anybodys := map[string]bool{wire.TrustCertify.Name(): true, wire.SystemStatus.Name(): true}
	for _, who := range []trust.Principal{
		{Role: trust.Node, ID: ids.New()}, {Role: trust.Server, ID: "s9"}, {Role: trust.Stranger},
	} {
		c := localstate.New(t)
		ws, pipe := wire.NewServer(), wire.NewPipe()
		New(Config{
			Store:       c.Store,
			Proposer:    c,
			Cluster:     follower{},
			Heartbeats:  leader.Alone{},
			Controllers: controllers.New(),
			Secrets:     noSecrets{},
			Log:         slog.New(slog.DiscardHandler),
		}).Register(ws)
		g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
		g.Go("calls", func() error {
			return ws.Run(ctx, known{pipe.Listener(), trust.Peer{Principal: who}})
		})
		conn, err := wire.Connect(pipe.Dial)
		if err != nil {
			t.Fatal(err)
		}
		methods := ws.Methods()
		if len(methods) < 40 {
			t.Fatalf("only %d methods", len(methods))
		}
		for _, path := range methods {
			name := strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
			_, err := wire.Unary[wire.Empty, wire.Empty](name).Call(t.Context(), conn, &wire.Empty{})
			if denied := fault.Has(err, fault.Denied); denied == anybodys[path] {
				t.Errorf("%s calls %s: %v", who, name, err)
			}
		}
		_, err = wire.NodeHeartbeat.Call(t.Context(), conn, &wire.NodeHeartbeatRequest{
			NodeIdentity: wire.NodeIdentity{Node: ids.Node(who.ID)},
		})
		if own := !fault.Has(err, fault.Denied); own != (who.Role == trust.Node) {
			t.Errorf("%s beats for itself: %v", who, err)
		}
		_ = conn.Close() // in-process
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

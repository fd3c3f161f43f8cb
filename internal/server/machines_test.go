package server_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/raftlog"
	"berth/internal/port/tlsport"
	"berth/internal/server"
	"berth/internal/testkit/oneserver"
	"berth/internal/wire"
)

// machine is one with a server, whose port others reach by TCP and TLS as they do in a cluster.
type machine struct {
	*server.Server
	t    *testing.T
	name string
	dir  string
	addr string           // of the port
	asks []string         // the servers that it joins; none: it begins the cluster
	file string           // of its join token
	conn *grpc.ClientConn // in-process
	end  func()
}

// begins is the first server of a cluster.
func begins(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{t: t, name: name, dir: t.TempDir(), addr: "127.0.0.1:0"}
	t.Cleanup(m.stop)
	m.start()
	return m
}

// start runs the server on what it left, and waits until it serves.
func (m *machine) start() {
	m.t.Helper()
	m.begin()
	if err := m.Ready(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// begin runs the server on what it left.
func (m *machine) begin() {
	m.t.Helper()
	raw, err := net.Listen("tcp", m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.addr = raw.Addr().String()
	quiet := slog.New(slog.DiscardHandler)
	own := credentials.New(credentials.Config{
		Dir:       m.dir,
		Role:      trust.Server,
		Servers:   m.asks,
		TokenFile: m.file,
		Pause:     retry.Backoff{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond},
		Log:       quiet,
	})
	if err := own.Open(); err != nil {
		m.t.Fatal(err)
	}
	m.Server = server.New(server.Config{
		DataDir: filepath.Join(m.dir, "server"),
		Name:    m.name,
		Addr:    "127.0.0.1",
		Own:     own,
		Address: m.addr,
		Raft:    raftlog.Config{SegmentSize: 1 << 20, Reserve: 1 << 20},
	})
	port := tlsport.New(raw, tlsport.Config{Credentials: m.Credentials(), Admits: m.Admits(), Log: quiet})
	outer := context.WithoutCancel(m.t.Context())
	g, ctx := lifecycle.NewGroup(outer)
	ports, portCtx := lifecycle.NewGroup(outer)
	run := m.Server
	ports.Go("port", func() error { return port.Run(portCtx) })
	g.Go(m.name, func() error {
		return run.Run(ctx, server.Listeners{
			Calls:    []net.Listener{port.Listener(tlsport.Calls)},
			Reversed: []net.Listener{port.Listener(tlsport.Reverse)},
			Open:     []net.Listener{port.Listener(tlsport.Join)},
			Log:      port.Listener(tlsport.Raft),
		})
	})
	conn, err := m.Connect()
	if err != nil {
		m.t.Fatal(err)
	}
	m.conn = conn
	m.end = func() {
		_ = conn.Close() // in-process: nobody is at the other end any more
		for _, g := range []*lifecycle.Group{g, ports} {
			g.Stop()
			if err := g.Wait(); err != nil {
				m.t.Errorf("%s ended with %v", m.name, err)
			}
		}
	}
}

// stop ends the server, if it runs.
func (m *machine) stop() {
	if m.end != nil {
		m.end()
		m.end = nil
	}
}

// token is a file with a join token for a role.
func (m *machine) token(role trust.Role) string { return m.tokenFor(role, 9) }

// tokenFor is a file with a join token that is good for so many.
func (m *machine) tokenFor(role trust.Role, uses int) string {
	m.t.Helper()
	out, err := wire.TrustAdmit.Call(m.t.Context(), m.conn,
		&wire.AdmitRequest{Role: role, Uses: uses, Good: time.Hour})
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(out.Token.Token()+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// comer is a node on another machine: its credentials, and what it says of itself.
type comer struct {
	wire.NodeIdentity
	*credentials.Credentials
	dir string
}

// node joins as a node by a token's file, or opens what one has left in dir.
func (m *machine) node(dir string, id ids.Node, file string) *comer {
	m.t.Helper()
	n := &comer{
		dir:          dir,
		NodeIdentity: wire.NodeIdentity{Node: id, Secret: wire.Secrets{Values: map[string]string{"id": "secret"}}},
		Credentials: credentials.New(credentials.Config{
			Dir:       dir,
			Role:      trust.Node,
			Servers:   []string{m.addr},
			TokenFile: file,
			Log:       slog.New(slog.DiscardHandler),
		}),
	}
	if err := n.Open(); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// asks asks once for a certificate.
func (n *comer) asks(ctx context.Context) error {
	return n.Ask(ctx, credentials.Self{ID: string(n.Node)})
}

// registers registers the node on a connection of its own.
func (n *comer) registers(t *testing.T) error {
	t.Helper()
	conn, err := wire.Connect(n.Way(tlsport.Calls).Dial)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nobody calls any more
	return agent{NodeIdentity: n.NodeIdentity}.registers(t.Context(), conn)
}

// TestATokenForServersIsMadeAsSoonAsOneServes: given a server that has just begun a cluster, and has not said yet where
// it is found, when a person makes a token for another server at once, then that is waited for; where it never says so,
// the refusal says what to do.
func TestATokenForServersIsMadeAsSoonAsOneServes(t *testing.T) {
	for range 5 {
		m := &machine{t: t, name: "s1", dir: t.TempDir(), addr: "127.0.0.1:0"}
		m.start()
		m.token(trust.Server)
		m.stop()
	}
	_, conn := oneserver.Start(t)
	_, err := wire.TrustAdmit.Call(t.Context(), conn, &wire.AdmitRequest{Role: trust.Server, Uses: 1, Good: time.Hour})
	if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), "let this one listen") {
		t.Errorf("of a server that nobody reaches: %v", err)
	}
}

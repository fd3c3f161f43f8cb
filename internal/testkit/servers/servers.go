// Package servers owns several servers of one cluster in one process, joined by a network that a test cuts: in a bubble
// of testing/synctest their clock is the bubble's. Only tests import it.
package servers

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/port/raftlog"
	"berth/internal/port/tlsport"
	"berth/internal/server"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/memnet"
)

// Cluster is servers that know each other.
type Cluster struct {
	t       testing.TB
	Members []*Member // changed under mu, by the test alone
	Trust   *certificates.Cluster
	raft    raftlog.Config // of each, but for its network and the voters
	more    []func(*server.Config)
	base    string // of all their directories
	begun   int    // so many began the cluster; the others joined

	mu    sync.Mutex
	cut   map[[2]string]bool       // links that carry nothing
	held  map[string]chan struct{} // servers that stand still, closed when they go on
	gone  map[string]bool          // servers that have crashed
	conns map[*thread][2]string
}

// Member is one of them, whether it runs or not.
type Member struct {
	Name string
	*server.Server
	Conn *grpc.ClientConn // to its methods, while it runs

	c     *Cluster
	dir   string
	cred  *certificates.Credentials
	group *lifecycle.Group // nil: it does not run
	ports *lifecycle.Group // outlives it

	mu   sync.Mutex
	said strings.Builder  // its log
	raw  *memnet.Listener // beneath its port
	port *tlsport.Port
}

// Start begins a cluster of so many servers, which end with the test.
func Start(t testing.TB, count int) *Cluster {
	t.Helper()
	return StartWith(t, count, raftlog.Config{})
}

// StartWith is Start with a log that is set up like this, and with what else each server is to have.
func StartWith(t testing.TB, count int, raft raftlog.Config, more ...func(*server.Config)) *Cluster {
	t.Helper()
	c := &Cluster{
		t:     t,
		raft:  raft,
		more:  more,
		Trust: certificates.New(t, ids.New()),
		cut:   map[[2]string]bool{},
		held:  map[string]chan struct{}{},
		gone:  map[string]bool{},
		conns: map[*thread][2]string{},
	}
	c.base, c.begun = t.TempDir(), count
	for range count {
		c.add()
	}
	t.Cleanup(func() {
		for _, m := range c.Members {
			m.Stop()
		}
	})
	c.Members[0].Start()
	c.shareKey()
	for _, m := range c.Members[1:] {
		m.Start()
	}
	return c
}

// shareKey gives all the key that the first has made: what one seals the others open.
func (c *Cluster) shareKey() {
	c.t.Helper()
	key := filepath.Join("keyring", "root.key")
	var data []byte
	for err := fs.ErrNotExist; err != nil; time.Sleep(time.Millisecond) {
		data, err = os.ReadFile(filepath.Join(c.Members[0].dir, key))
	}
	for _, m := range c.Members[1:] {
		to := filepath.Join(m.dir, key)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Dir is where the server has its data.
func (m *Member) Dir() string { return m.dir }

// Said is what the server has logged for people, at level INFO and above.
func (m *Member) Said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.String()
}

// said takes a server's log.
type said struct{ m *Member }

// Write implements io.Writer.
func (s said) Write(p []byte) (int, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.said.Write(p)
}

// Start runs the server on what it left.
func (m *Member) Start() {
	m.c.t.Helper()
	m.c.mu.Lock()
	delete(m.c.gone, m.Name)
	m.c.mu.Unlock()
	cfg := server.Config{
		DataDir: m.dir,
		Name:    m.Name,
		Addr:    m.Name,
		Port:    4647,
		Network: m,
		Log:     slog.New(slog.NewTextHandler(said{m}, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Raft:    m.c.raft,
	}
	cfg.Raft.Network = streams{m}
	for _, set := range m.c.more {
		set(&cfg)
	}
	for _, other := range m.c.founders(m) {
		cfg.Raft.Voters = append(cfg.Raft.Voters, raftlog.Voter{ID: other.Name, Address: other.Name})
	}
	raw := memnet.Listen()
	port := tlsport.New(raw, tlsport.Config{
		Credentials: m.cred,
		Admits: map[string]func(trust.Peer) error{
			tlsport.Calls:   func(trust.Peer) error { return nil },
			tlsport.Raft:    m.colleague,
			tlsport.Reverse: only(trust.Node),
		},
		Log: slog.New(slog.DiscardHandler),
	})
	m.mu.Lock()
	m.raw, m.port = raw, port
	m.mu.Unlock()
	m.Server = server.New(cfg)
	conn, err := m.Connect()
	if err != nil {
		m.c.t.Fatal(err)
	}
	m.Conn = conn
	outer := context.WithoutCancel(m.c.t.Context())
	g, ctx := lifecycle.NewGroup(outer)
	ports, portCtx := lifecycle.NewGroup(outer)
	m.group, m.ports = g, ports
	run := m.Server
	ports.Go("port of "+m.Name, func() error { return port.Run(portCtx) })
	g.Go(m.Name, func() error {
		return run.Run(ctx, server.Listeners{
			Calls:    []net.Listener{port.Listener(tlsport.Calls)},
			Reversed: []net.Listener{port.Listener(tlsport.Reverse)},
		})
	})
}

// only admits one role.
func only(role trust.Role) func(trust.Peer) error {
	return func(p trust.Peer) error {
		if p.Role != role {
			return fault.New(fault.Denied, "admit", p.String(), "this is for a "+string(role))
		}
		return nil
	}
}

// Stop ends the server in order.
func (m *Member) Stop() {
	if m.group == nil {
		return
	}
	_ = m.Conn.Close() // nobody calls any more
	for _, g := range []*lifecycle.Group{m.group, m.ports} {
		g.Stop()
		if err := g.Wait(); err != nil {
			m.c.t.Errorf("server %s ended with %v", m.Name, err)
		}
	}
	m.group, m.ports = nil, nil
}

// Runs tells whether the server runs.
func (m *Member) Runs() bool { return m.group != nil }

// Leader waits until one of the servers that run leads, and its work has begun; nil: none within a minute.
func (c *Cluster) Leader(but ...*Member) *Member {
	for range 600 {
		for _, m := range c.Members {
			if m.Runs() && !slices.Contains(but, m) && m.Leading() {
				return m
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// Follower is one that runs and does not lead.
func (c *Cluster) Follower() *Member {
	c.t.Helper()
	lead := c.Leader()
	for _, m := range c.Members {
		if m != lead && m.Runs() {
			return m
		}
	}
	c.t.Fatal("every server that runs leads")
	return nil
}

// Cut ends what goes between a server and all others, and lets nothing through until Heal.
func (c *Cluster) Cut(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.Members {
		if other != m {
			c.cut[link(m.Name, other.Name)] = true
		}
	}
	c.breakCut()
}

// Heal lets everything through again.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
}

func link(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// Dial implements server.Network.
func (m *Member) Dial(ctx context.Context, to string) (net.Conn, error) {
	return m.c.dial(ctx, m.Name, to, tlsport.Calls, m.cred)
}

// Dial connects a node, or whoever shows its certificate, to a server.
func (c *Cluster) Dial(
	ctx context.Context, to *Member, protocol string, cred *certificates.Credentials,
) (net.Conn, error) {
	return c.dial(ctx, "", to.Name, protocol, cred)
}

func (c *Cluster) dial(
	ctx context.Context, from, to, protocol string, cred *certificates.Credentials,
) (net.Conn, error) {
	between := link(from, to)
	away := fmt.Errorf("%s does not reach %s", from, to)
	l := c.listener(to)
	if l == nil || !c.carries(between) {
		return nil, away
	}
	raw, err := l.DialHeld(ctx, func() <-chan struct{} { return c.holding(between) })
	if err != nil {
		return nil, err
	}
	conn := &thread{Conn: raw, c: c}
	c.mu.Lock()
	c.conns[conn] = between
	c.mu.Unlock()
	if !c.carries(between) { // it was cut meanwhile
		_ = conn.Close() // a pipe in memory
		return nil, away
	}
	return tlsport.Over(ctx, conn, protocol, to, cred)
}

// listener is what is beneath the port of a server; nil: there is none of that name, or it never ran.
func (c *Cluster) listener(name string) *memnet.Listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.Members {
		if m.Name == name {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.raw
		}
	}
	return nil
}

// streams is the network of a server's log.
type streams struct{ *Member }

// Open implements raftlog.Network.
func (s streams) Open(ctx context.Context, to string) (net.Conn, error) {
	return s.c.dial(ctx, s.Name, to, tlsport.Raft, s.cred)
}

// Listener implements raftlog.Network.
func (s streams) Listener() net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port.Listener(tlsport.Raft)
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/model/acl"
	"berth/internal/model/variable"
	"berth/internal/model/workload"
	"berth/internal/port/consul"
	"berth/internal/port/credentials"
	"berth/internal/port/kv"
	"berth/internal/port/raftlog"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/tlsport"
	"berth/internal/server/consultokens"
	"berth/internal/server/denied"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/gc"
	"berth/internal/server/inflight"
	"berth/internal/server/keyring"
	"berth/internal/server/majority"
	"berth/internal/server/mending"
	"berth/internal/server/permissions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Config says where a server lives and what it is. Zero fields take defaults.
type Config struct {
	DataDir string // the server's own directory; made if missing, locked while it runs
	Name    string
	Addr    string // that people see in listings
	Port    uint16
	Tags    map[string]string
	Region  string // that identities of tasks name
	Issuer  string // that they name; empty: none
	Log     *slog.Logger
	// Dev: server and node are one process, so that no silence takes the node down.
	Dev            bool
	HeartbeatTTL   time.Duration
	HeartbeatGrace time.Duration
	GC             gc.Ages
	KeyAges        keyring.Ages
	Variables      variable.Bounds // of each namespace
	// VolumeListInterval: see volumes.Config.
	VolumeListInterval time.Duration
	AlphaGetVolume     bool     // see volumes.Config
	TokenLifetime      acl.Life // of tokens of access control lists that expire; the zero value: acl.DefaultLife
	// Recovery are the keys of people that open what is sealed, beside the servers'.
	Recovery keyring.Recovery
	Raft     raftlog.Config // Dir, ID and Log are filled in
	// Own is what the server shows on its TLS port, and where it knows the others from; nil: it has no port.
	Own *credentials.Credentials
	// Address is where others reach that port, host:port.
	Address string
	// CertificateLifetime is that of the certificates which this server issues; 0: trust.Lifetime.
	CertificateLifetime time.Duration
	Expect              int // servers that the cluster is to have; 0: not said
	// Network reaches the methods of the other servers; nil: it is made of Own.
	Network Network
	// Consul is the agent by which the servers speak with it; nil: they do not.
	Consul *consul.Agent
	// ForConsul are the identities for Consul of those whose job says none.
	ForConsul workload.Meant
	// Tokens makes tokens of Consul for tasks; nil: Consul does.
	Tokens consultokens.Consul
	// Record writes down what persons do by the connections of other agents; nil: nothing is.
	Record serving.Recorder
}

// Server is the server half.
type Server struct {
	cfg   Config
	store *state.Store
	fsm   *fsm.FSM
	log   *raftlog.Log
	nodes *Nodes
	ages  *gc.Held

	calls, reversed *wire.Pipe // in-process transport

	others *others
	reach  *reach // nil: there are no others
	missed *majority.Watch
	lead   lead
	shown  shown

	ring   *keyring.Keyring // since Run
	panics panics

	proposed proposed
}

// proposed counts commands that a server brought into the log, by their names.
type proposed struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (p *proposed) count(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = map[string]uint64{}
	}
	p.counts[name]++
}

func (p *proposed) read() map[string]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// New returns a server that does nothing before Run.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		cfg.Name = "server"
	}
	if cfg.Tokens == nil && cfg.Consul != nil {
		cfg.Tokens = cfg.Consul
	}
	s := &Server{
		cfg:      cfg,
		store:    state.New(),
		ages:     gc.Hold(cfg.GC),
		calls:    wire.NewPipe(),
		reversed: wire.NewPipe(),
	}
	s.fsm = fsm.New(s.store)
	s.panics.log = cfg.Log
	s.fsm.OnPanic = s.panics.heard
	rc := cfg.Raft
	rc.Dir, rc.Log = s.raftDir(), cfg.Log
	if rc.ID == "" {
		rc.ID = cfg.Name
	}
	if cfg.Own != nil && cfg.Network == nil {
		s.reach = &reach{Server: s}
		cfg.Network, rc.Network = s.reach, s.reach
		if cfg.begins() {
			rc.Voters = []raftlog.Voter{{ID: rc.ID, Address: rc.ID}}
		}
	}
	id, voters := rc.ID, rc.Voters
	rc.Peers = func() []raftlog.Peer { return s.menders(id, voters) }
	s.log = raftlog.New(rc, s.fsm)
	s.others = &others{network: cfg.Network}
	s.nodes = newNodes(s.store, s, cfg.Log)
	s.missed = &majority.Watch{
		Name:   rc.ID,
		Leader: s.log.Leader,
		Voters: s.log.Voters,
		Ask: func(ctx context.Context, server string) error {
			_, err := roster{s}.progressOf(ctx, server)
			return err
		},
		Log: cfg.Log,
	}
	return s
}

// Calls is the in-process transport for calls to the server; wire.Connect dials it.
func (s *Server) Calls() *wire.Pipe { return s.calls }

// Reversed is the in-process transport on which a node greets (wire.SendHello) and then serves.
func (s *Server) Reversed() *wire.Pipe { return s.reversed }

// Connect returns an in-process connection to the server's methods. Close it when done.
func (s *Server) Connect() (*grpc.ClientConn, error) { return wire.Connect(s.calls.Dial) }

// Credentials are what this server shows to nodes and to other servers; it shows nothing before Run.
func (s *Server) Credentials() tlsport.Credentials { return &s.shown }

// Forget has the server forget what is over by other ages, and returns them, with the defaults filled in.
func (s *Server) Forget(ages gc.Ages) gc.Ages { return s.ages.Set(ages) }

// Store is the replicated state, for readers in the same process.
func (s *Server) Store() *state.Store { return s.store }

// Counters tells what the log wrote, for benchmarks.
func (s *Server) Counters() raftlog.Written { return s.log.Counters().Read() }

// Commands counts what this server brought into the log, by the names of the commands.
func (s *Server) Commands() map[string]uint64 { return s.proposed.read() }

// Snapshot writes the state to a snapshot of the log now.
func (s *Server) Snapshot(ctx context.Context) error { return s.log.Snapshot(ctx) }

// Listeners are what a server serves beside its in-process transport.
type Listeners struct {
	Calls    []net.Listener // methods
	Reversed []net.Listener // nodes greet and serve
	Open     []net.Listener // those who have no certificate ask for one
	Log      net.Listener   // the other servers' logs; nil: there are none
}

// Run opens the data directory, serves and leads until ctx ends. When it returns everything has stopped and is closed.
func (s *Server) Run(ctx context.Context, l Listeners) error {
	lock, err := kv.LockDir(s.cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process in any case
	if s.reach != nil {
		s.reach.streams = l.Log
		if err := s.cfg.Own.Begin(files.Begun(s.raftDir())); err != nil {
			return err
		}
	}
	ring, err := s.keyring()
	if err != nil {
		return err
	}
	s.ring = ring
	c := s.components(ring)
	s.shown.set(&keyring.Credentials{Name: s.cfg.Name, Authority: c.authority, Own: s.cfg.Own})
	methods, open := s.methods(c)

	// The log outlives what stands on it: calls in flight and the leader's work end first.
	logs, logCtx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	g, gctx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	g.Go("order", func() error { return s.stopInOrder(ctx, gctx, g) })
	logs.Go("log", func() error {
		defer g.Stop()
		return s.runLog(logCtx, ring.Public())
	})
	limiter := inflight.New(inflight.Default, s.cfg.Log)
	ends := &denied.Connections{Store: s.store, Log: s.cfg.Log, Rooted: s.cfg.Own != nil}
	calls := []net.Listener{s.calls.Listener()}
	for _, at := range l.Calls {
		calls = append(calls, limiter.Guard(ends.Guard(at)))
	}
	g.Go("calls", func() error { return methods.Run(gctx, calls...) })
	g.Go("joining", func() error { return open.Run(gctx, l.Open...) })
	reversed := []net.Listener{s.reversed.Listener()}
	for _, at := range l.Reversed {
		reversed = append(reversed, ends.Guard(at))
	}
	g.Go("nodes", func() error { return s.nodes.run(gctx, reversed...) })
	g.Go("denied", func() error { return ends.Run(gctx) })
	g.Go("leader", func() error { return s.leaderLoop(gctx, c) })
	g.Go("state", func() error { return s.watchHalt(gctx) })
	g.Go("schema", func() error { return watchSchema(gctx, s.store, fsm.Schema()) })
	g.Go("panics", func() error { return s.panics.run(gctx, s.log.Snapshot) })
	g.Go("majority", func() error { return s.missed.Run(gctx) })
	g.Go("former leader", func() error { return s.watchFormer(gctx) })
	if s.reach != nil {
		g.Go("standing", func() error { return s.stand(gctx) })
	}
	err = errors.Join(g.Wait(), s.others.close())
	logs.Stop()
	return errors.Join(err, logs.Wait())
}

// methods are all that this server answers, and what of that it answers to those who have no certificate. Who may call
// what is judged in one place, before any of it.
func (s *Server) methods(c *components) (all, open *wire.Server) {
	all, open = wire.NewServer(s.cfg.Log), wire.NewServer(s.cfg.Log)
	all.Admit(serving.Admit)
	all.Bound(wire.MaxRequest, inflight.Default.Calls)
	open.Admit(serving.Admit)
	if s.cfg.Record != nil {
		all.Record(serving.Recorded(s.store, s.cfg.Record))
	}
	open.Bound(maxOpenMessage, maxOpenCalls)
	c.endpoints.Register(all)
	s.nodes.register(all)
	mending.Serve(all, s.log)
	c.endpoints.RegisterOpen(open)
	for _, m := range all.Methods() {
		if !permissions.Known(m) {
			panic("server: nothing says who may call " + m)
		}
	}
	return all, open
}

// Bounds of those who have no certificate: a request for one is small, and one is asked for at a time.
const (
	maxOpenMessage = 16 << 10 // bytes
	maxOpenCalls   = 4        // at once, of a connection
)

// keyring opens the servers' key. It is made once, before there is a log.
func (s *Server) keyring() (*keyring.Keyring, error) {
	dir := filepath.Join(s.cfg.DataDir, "keyring")
	if files.Begun(s.raftDir()) {
		return keyring.Open(dir)
	}
	return keyring.Create(dir)
}

func (s *Server) raftDir() string { return filepath.Join(s.cfg.DataDir, "raft") }

// watchHalt ends the server when its state machine met an entry that it does not understand.
func (s *Server) watchHalt(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.fsm.Stopped():
		return fault.WithHint(s.fsm.Halted(), "this server applies nothing any more")
	}
}

// Propose brings a command into the log.
func (s *Server) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if err := s.understood(cmd); err != nil {
		return nil, 0, err
	}
	data, err := fsm.Encode(cmd, time.Now())
	if err != nil {
		return nil, 0, err
	}
	if k, known := fsm.KindOf(cmd); known {
		s.proposed.count(k.Name)
	}
	if r, ok := cmd.(fsm.Releasing); ok && r.Releases() {
		return s.log.ApplyReleasing(ctx, data)
	}
	return s.log.Apply(ctx, data)
}

// understood refuses a command that a server of an older version in the cluster could not apply.
func (s *Server) understood(cmd fsm.Command) error {
	k, known := fsm.KindOf(cmd)
	needs := k.Schema
	if n, ok := cmd.(fsm.Needing); ok {
		needs = max(needs, n.Needs())
	}
	if m := s.store.Snapshot().Meta(nil); known && m != nil && needs > m.Schema {
		return fault.WithHint(
			fault.New(fault.Unsupported, "propose", k.Name,
				fmt.Sprintf("it needs schema %d, the cluster is at %d", needs, m.Schema)),
			"upgrade every server first")
	}
	return nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/port/kv"
	"berth/internal/port/raftlog"
	"berth/internal/server/endpoint"
	"berth/internal/server/fsm"
	"berth/internal/server/gc"
	"berth/internal/server/heartbeat"
	"berth/internal/server/keyring"
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
	Log     *slog.Logger
	// Dev: server and node are one process, so that no silence takes the node down.
	Dev                bool
	HeartbeatTTL       time.Duration
	HeartbeatGrace     time.Duration
	GC                 gc.Ages
	Raft               raftlog.Config // Dir, ID and Log are filled in
	Parts              []Part         // in addition to those of parts.go
	withoutBuiltInPart bool           // tests of this package alone
}

// Core is what the parts of a server share.
type Core struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Keyring  *keyring.Keyring
	// Nodes reaches connected nodes.
	Nodes *Nodes
	Log   *slog.Logger
	Dev   bool
}

// Part makes one piece of the server's work over the core, before anything runs.
type Part func(Core) (Piece, error)

// Piece is what a part adds. All fields but Name may be nil.
type Piece struct {
	Name string
	// Lead is run while this server leads, and joined when it no longer does.
	Lead func(ctx context.Context) error
	// Register adds handlers to the wire.
	Register func(*wire.Server)
	// Planner makes dry runs; Storage describes an alloc's volumes. One piece offers each.
	Planner endpoint.Planner
	Storage endpoint.StorageView
}

// Server is the server half.
type Server struct {
	cfg   Config
	store *state.Store
	fsm   *fsm.FSM
	log   *raftlog.Log
	nodes *Nodes

	calls, reversed *wire.Pipe // in-process transport

	mu      sync.Mutex
	ruling  bool  // the leader's work runs
	sick    error // why it doesn't
	changed lifecycle.Signal
}

// New returns a server that does nothing before Run.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		cfg.Name = "server"
	}
	s := &Server{cfg: cfg, store: state.New(), calls: wire.NewPipe(), reversed: wire.NewPipe()}
	s.fsm = fsm.New(s.store)
	rc := cfg.Raft
	rc.Dir, rc.Log = filepath.Join(cfg.DataDir, "raft"), cfg.Log
	if rc.ID == "" {
		rc.ID = cfg.Name
	}
	s.log = raftlog.New(rc, s.fsm)
	s.nodes = newNodes(s.store, cfg.Log)
	return s
}

// Calls is the in-process transport for calls to the server; wire.Connect dials it.
func (s *Server) Calls() *wire.Pipe { return s.calls }

// Reversed is the in-process transport on which a node greets (wire.SendHello) and then serves.
func (s *Server) Reversed() *wire.Pipe { return s.reversed }

// Connect returns an in-process connection to the server's methods. Close it when done.
func (s *Server) Connect() (*grpc.ClientConn, error) { return wire.Connect(s.calls.Dial) }

// Store is the replicated state, for readers in the same process.
func (s *Server) Store() *state.Store { return s.store }

// Counters tells what the log wrote, for benchmarks.
func (s *Server) Counters() raftlog.Written { return s.log.Counters().Read() }

// Snapshot writes the state to a snapshot of the log now.
func (s *Server) Snapshot(ctx context.Context) error { return s.log.Snapshot(ctx) }

// Listeners are what a server serves beside its in-process transport.
type Listeners struct {
	Calls    []net.Listener // methods
	Reversed []net.Listener // nodes greet and serve
}

// Run opens the data directory, serves and leads until ctx ends. When it returns everything has stopped and is closed.
func (s *Server) Run(ctx context.Context, l Listeners) error {
	lock, err := kv.LockDir(s.cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process in any case
	ring, err := keyring.Open(filepath.Join(s.cfg.DataDir, "keyring"))
	if err != nil {
		return err
	}
	core := Core{Store: s.store, Proposer: s, Keyring: ring, Nodes: s.nodes, Log: s.cfg.Log, Dev: s.cfg.Dev}
	pieces, err := s.assemble(core)
	if err != nil {
		return err
	}
	ws := s.methods(pieces)

	// The log outlives what stands on it: calls in flight and the leader's work end first.
	logs, logCtx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	g, gctx := lifecycle.NewGroup(ctx)
	logs.Go("log", func() error {
		defer g.Stop()
		return s.log.Run(logCtx)
	})
	g.Go("calls", func() error { return ws.Run(gctx, append(l.Calls, s.calls.Listener())...) })
	g.Go("nodes", func() error { return s.nodes.run(gctx, append(l.Reversed, s.reversed.Listener())...) })
	g.Go("leader", func() error { return s.rule(gctx, pieces) })
	g.Go("state", func() error { return s.watchHalt(gctx) })
	err = g.Wait()
	logs.Stop()
	return errors.Join(err, logs.Wait())
}

// assemble makes the pieces: those that belong here, then those of the configuration.
func (s *Server) assemble(core Core) ([]Piece, error) {
	parts := s.cfg.Parts
	if !s.cfg.withoutBuiltInPart {
		parts = append(builtIn(s.cfg), parts...)
	}
	var out []Piece
	for _, part := range parts {
		p, err := part(core)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	timers := heartbeat.New(heartbeat.Config{Store: s.store, Proposer: s, Log: s.cfg.Log,
		TTL: s.cfg.HeartbeatTTL, Grace: s.cfg.HeartbeatGrace, Endless: s.cfg.Dev})
	collector := gc.New(s.store, s, s.cfg.GC, s.cfg.Log)
	ec := endpoint.Config{Store: s.store, Proposer: s, Heartbeats: timers, Collector: collector, Cluster: s, Log: s.cfg.Log}
	for _, p := range out {
		if p.Planner != nil {
			ec.Planner = p.Planner
		}
		if p.Storage != nil {
			ec.Storage = p.Storage
		}
	}
	return append(out,
		Piece{Name: "heartbeat", Lead: timers.Run},
		Piece{Name: "gc", Lead: collector.Run},
		Piece{Name: "endpoints", Register: endpoint.New(ec).Register},
		Piece{Name: "forward", Register: s.nodes.register}), nil
}

func (s *Server) methods(pieces []Piece) *wire.Server {
	ws := wire.NewServer()
	for _, p := range pieces {
		if p.Register != nil {
			p.Register(ws)
		}
	}
	return ws
}

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
	if r, ok := cmd.(fsm.Releasing); ok && r.Releases() {
		return s.log.ApplyReleasing(ctx, data)
	}
	return s.log.Apply(ctx, data)
}

// understood refuses a command that a server of an older version in the cluster could not apply.
func (s *Server) understood(cmd fsm.Command) error {
	k, known := fsm.KindOf(cmd)
	if m := s.store.Snapshot().Meta(nil); known && m != nil && k.Schema > m.Schema {
		return fault.WithHint(fault.New(fault.Unsupported, "propose", k.Name, fmt.Sprintf("it needs schema %d, the cluster is at %d", k.Schema, m.Schema)),
			"upgrade every server first")
	}
	return nil
}

// rule runs the leader's work during each of this server's reigns.
func (s *Server) rule(ctx context.Context, pieces []Piece) error {
	for ctx.Err() == nil {
		lead, changed := s.log.Leadership()
		if lead.Leading {
			s.reign(ctx, lead, pieces)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}

// reignPause is how long a reign that failed is not tried again.
const reignPause = time.Second

// reign is one time of leading: the state is brought up to date, then all pieces lead until leadership is lost.
func (s *Server) reign(ctx context.Context, lead raftlog.Leadership, pieces []Piece) {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("end of reign", func() error {
		for {
			now, changed := s.log.Leadership()
			if now != lead {
				g.Stop()
				return nil
			}
			select {
			case <-gctx.Done():
				return nil
			case <-changed:
			}
		}
	})
	err := s.ascend(gctx)
	if err == nil {
		for _, p := range pieces {
			if p.Lead != nil {
				g.Go(p.Name, func() error { return lead1(gctx, p) })
			}
		}
		s.setRuling(true, nil)
		err = g.Wait()
	} else {
		g.Stop()
		err = errors.Join(err, g.Wait())
	}
	s.setRuling(false, err)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("the leader's work failed; starting it again", logkey.Error, err)
		pause(ctx, reignPause)
	}
}

// lead1 runs one piece; one that returns before its time has failed.
func lead1(ctx context.Context, p Piece) error {
	err := p.Lead(ctx)
	if err == nil && ctx.Err() == nil {
		return fmt.Errorf("%s ended by itself", p.Name)
	}
	return err
}

// ascend brings the state up to date and gives a new cluster its identity.
func (s *Server) ascend(ctx context.Context) error {
	if err := s.log.Barrier(ctx); err != nil {
		return err
	}
	var cmd fsm.Command
	switch m := s.store.Snapshot().Meta(nil); {
	case m == nil:
		cmd = &fsm.Bootstrap{ClusterID: ids.New(), Incarnation: ids.New(), Schema: fsm.Schema()}
	case m.Schema < fsm.Schema(): // a lone server is every server
		cmd = &fsm.SchemaRaise{To: fsm.Schema()}
	default:
		return nil
	}
	_, _, err := s.Propose(ctx, cmd)
	return err
}

func (s *Server) setRuling(ruling bool, why error) {
	s.mu.Lock()
	s.ruling, s.sick = ruling, why
	s.mu.Unlock()
	s.changed.Notify()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

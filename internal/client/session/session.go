// Package session owns the node's standing with its servers: registration, heartbeats, the stream of allocs, which
// history of the servers the node follows, and whether it is armed. Only package client imports it.
package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/client/allocs"
	"berth/internal/client/host"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// defaultTTL is the node's time to live until the servers say another.
const defaultTTL = 10 * time.Second

// Config wires a session.
type Config struct {
	Link   *servers.Link
	Gate   *servers.Gate // opened when the node is armed
	Host   *host.Host
	Allocs *allocs.Allocs
	Seen   lineage.Point // the newest state of the servers that an earlier run of the agent acted on
	Store  *localstate.Store
	// Machine is the one that the agent runs on. InProcess: so do the servers, in the same process.
	Machine   node.Machine
	InProcess bool
	Log       *slog.Logger
}

// Session is the node's standing with its servers.
type Session struct {
	link   *servers.Link
	gate   *servers.Gate
	host   *host.Host
	allocs *allocs.Allocs
	log    *slog.Logger
	store  *localstate.Store
	due    due
	marked lifecycle.Signal // another leadership of the servers has begun, or another state is followed
	own    registering

	mu          sync.Mutex
	seen        lineage.Point
	incarnation string // of the registration
	foreign     bool   // the servers' state is another than the one whose tasks and volumes this node holds
	pulse       pulse
	endStream   context.CancelFunc // of the present stream of allocs; nil before the first
}

// registering belongs to the registering loop alone.
type registering struct {
	begun node.Registration // what all registrations of this agent start say alike
	chain localstate.Session
}

// pulse is how the servers know that the node lives.
type pulse struct {
	ttl  time.Duration // how long they wait for a heartbeat
	last time.Time     // when they answered a registration or a heartbeat; zero: not yet
	ends bool          // for good, with the agent: they are not to wait for it
}

// New returns a session that begins with Run.
func New(cfg Config) *Session {
	return &Session{
		link:   cfg.Link,
		gate:   cfg.Gate,
		host:   cfg.Host,
		allocs: cfg.Allocs,
		log:    cfg.Log,
		store:  cfg.Store,
		seen:   cfg.Seen,
		pulse:  pulse{ttl: defaultTTL},
		due:    due{asked: true},
		own:    registering{begun: node.Registration{Machine: cfg.Machine, InProcess: cfg.InProcess}},
	}
}

// Run keeps the node registered, alive and informed until ctx ends.
func (s *Session) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.host.Ready():
	}
	err := lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"register":  s.keepRegistered,
		"heartbeat": s.heartbeats,
		"allocs":    s.watchAllocs,
		"orphans":   s.watchOrphans,
	})
	s.leave(context.WithoutCancel(ctx))
	return err
}

// Seen is the newest state of the servers that the node has acted on.
func (s *Session) Seen() lineage.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Marked returns a channel that is closed when another leadership of the servers has begun, the node follows others, or
// it has acted on a whole set of allocs.
func (s *Session) Marked() <-chan struct{} { return s.marked.C() }

// SendInventory implements reporter.Servers: it fills in who reports.
func (s *Session) SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	out := *r
	out.NodeIdentity = s.link.Identity()
	return wire.NodeInventory.Call(ctx, s.link.Conn(), &out)
}

// InventoryKnown implements reporter.Servers: it fills in who asks.
func (s *Session) InventoryKnown(ctx context.Context, d *wire.InventoryDigest) (bool, error) {
	out := *d
	out.NodeIdentity = s.link.Identity()
	reply, err := wire.NodeInventoryKnown.Call(ctx, s.link.Conn(), &out)
	if err != nil {
		return false, err
	}
	return reply.Known, nil
}

func (s *Session) isForeign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign
}

// keepRegistered registers the node now and whenever its description changed.
func (s *Session) keepRegistered(ctx context.Context) error {
	return s.due.keep(ctx, s.host, func(ctx context.Context) error {
		err := s.register(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
		case fault.Has(err, fault.Conflict):
			s.link.Refused(err)
			s.restart()
		default:
			s.link.Failed("register the node", err)
		}
		return err
	})
}

func (s *Session) register(ctx context.Context) error {
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	info := s.host.Node()
	start, err := s.start(info)
	if err != nil {
		return &servers.Own{Err: err}
	}
	req := &wire.NodeRegisterRequest{
		NodeIdentity: s.link.Identity(),
		Info:         info,
		Seen:         s.Seen(),
		Holds:        s.allocs.Any(),
		Start:        start,
	}
	if len(s.own.chain.Readmit) > 0 {
		req.Readmit = wire.Secrets{Values: map[string]string{wire.ReadmitToken: string(s.own.chain.Readmit)}}
	}
	reply, err := wire.NodeRegister.Call(cctx, s.link.Conn(), req)
	if err != nil {
		return err
	}
	s.mu.Lock()
	other := s.incarnation != reply.Incarnation
	s.incarnation = reply.Incarnation
	s.beats(reply.HeartbeatTTL)
	s.mu.Unlock()
	if other { // what an earlier state has acknowledged this one may have lost
		s.gate.Set(false)
		s.allocs.ReportAll()
	}
	s.follow(req, reply)
	s.link.Learn(reply.Servers, 0)
	s.link.Reachable()
	if err := s.accepted(start, reply); err != nil {
		return &servers.Own{Err: err}
	}
	return nil
}

// heartbeats renews the node's time to live at half of it; after a failure sooner.
func (s *Session) heartbeats(ctx context.Context) error {
	failures := 0
	for s.link.AwaitRegistered(ctx) {
		s.mu.Lock()
		pause := s.pulse.ttl / 2
		s.mu.Unlock()
		if failures > 0 {
			pause = min(pause, servers.Pause.Jittered(failures))
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
		cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
		reply, err := wire.NodeHeartbeat.Call(cctx, s.link.Conn(),
			&wire.NodeHeartbeatRequest{NodeIdentity: s.link.Identity()})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failures++
			if registersFirst(err) {
				s.due.ask() // the registration says whether it is accepted
			} else {
				s.link.Failed("send a heartbeat", err)
			}
			continue
		}
		failures = 0
		s.link.Reachable()
		s.link.Learn(reply.Servers, reply.RootsAsOf)
		s.beaten(reply)
	}
	return nil
}

// registersFirst tells whether the servers obey this agent start only when it has registered (again): their state was
// restored, or another start of the node registered meanwhile.
func registersFirst(err error) bool { return wire.SessionRefused(err) || wire.SessionUnknown(err) }

// beats notes that the servers have answered, and how long they wait for the next time. s.mu is held.
func (s *Session) beats(ttl time.Duration) {
	s.pulse.last = time.Now()
	if ttl > 0 {
		s.pulse.ttl = ttl
	}
}

// Heartbeat is the node's time to live, and when the servers last answered it; zero: they have not yet.
func (s *Session) Heartbeat() (ttl time.Duration, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulse.ttl, s.pulse.last
}

// beaten acts on the answer to a heartbeat.
func (s *Session) beaten(reply *wire.NodeHeartbeatReply) {
	s.mu.Lock()
	s.beats(reply.TTL)
	// A node that keeps what another state placed has no stream that would end.
	left := reply.Incarnation != "" && reply.Incarnation != s.incarnation
	s.mu.Unlock()
	if reply.Reregister {
		s.allocs.ReportAll()
	}
	if reply.Reregister || left {
		s.due.ask()
	}
}

// watchAllocs follows the set of this node's allocs for as long as the node runs. Without a stream the node is not
// armed.
func (s *Session) watchAllocs(ctx context.Context) error {
	for failures := 1; s.link.AwaitRegistered(ctx); failures++ {
		if !s.awaitFollowed(ctx) {
			return nil
		}
		received, err := s.stream(ctx)
		s.gate.Set(s.isForeign())
		if ctx.Err() != nil {
			return nil
		}
		if received {
			failures = 1
		}
		if err != nil {
			s.link.Failed("follow the node's allocations", err)
		}
		if registersFirst(err) || fault.Has(err, fault.NotFound) || fault.Has(err, fault.Conflict) {
			s.due.ask()
		}
		servers.Pause.Sleep(ctx, failures)
	}
	return nil
}

func (s *Session) stream(ctx context.Context) (received bool, err error) {
	sctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.endStream = cancel
	s.mu.Unlock()
	st, err := wire.NodeAllocs.Open(sctx, s.link.Conn(),
		&wire.NodeAllocsRequest{NodeIdentity: s.link.Identity(), Seen: s.Seen()})
	if err != nil {
		return false, err
	}
	for {
		set, err := st.Recv()
		if err != nil {
			return received, err
		}
		if err := s.take(ctx, set); err != nil {
			return received, err
		}
		s.link.Done()
		received = true
	}
}

// take acts on one set, or refuses it, which ends the stream.
func (s *Session) take(ctx context.Context, set *wire.AllocSet) error {
	s.mu.Lock()
	seen, incarnation := s.seen, s.incarnation
	s.mu.Unlock()
	switch Receive(incarnation, seen, Set{Full: set.Full, At: set.At, Relation: set.Relation}) {
	case Elsewhere:
		return fault.New(fault.Conflict, "receive", "the node's allocations",
			"they are of another incarnation than the registration")
	case Foreign:
		return fault.New(fault.Conflict, "receive", "the node's allocations",
			"this node holds what another incarnation placed")
	case Late:
		return fault.New(fault.NotReady, "receive", "the node's allocations",
			fmt.Sprintf("the server is at index %d, this node has seen %d", set.At.Index, seen.Index))
	case Acted:
	case ActedWary:
		s.log.Warn("the servers' state does not continue what this node has seen: it was restored or shortened. What "+
			"it does not know is kept",
			"seen_index", seen.Index, "seen_mark", seen.Mark, "index", set.At.Index, "mark", set.At.Mark)
		s.allocs.ReportAll() // what was acknowledged since is lost
	}
	if err := s.allocs.Apply(ctx, set); err != nil {
		return err
	}
	s.mu.Lock()
	s.seen = set.At
	s.mu.Unlock()
	if set.At.Mark != seen.Mark || set.Full {
		s.marked.Notify()
	}
	if set.Full {
		s.gate.Set(true)
	}
	return nil
}

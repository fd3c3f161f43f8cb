package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
	"berth/internal/wire"
)

// Bounds of the session's calls and pauses.
const (
	callTimeout     = 10 * time.Second
	minSessionPause = 100 * time.Millisecond
	maxSessionPause = 5 * time.Second
	defaultTTL      = 10 * time.Second
)

// session owns the node's standing with its servers: registration, heartbeats, the stream of allocs, and whether the
// node is armed.
type session struct {
	c          *Client
	gate       gate
	registered chan struct{} // closed at the first registration
	again      lifecycle.Signal

	mu          sync.Mutex
	seen        localstate.Seen
	incarnation string // of the registration
	ttl         time.Duration
	due         bool // a registration is wanted
	silent      bool // the servers did not answer the last time
}

// gate says whether the node may undo things.
type gate struct {
	mu      sync.Mutex
	armed   bool
	changed lifecycle.Signal
}

// Armed implements csimanager.ArmedGate.
func (g *gate) Armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.armed
}

// Changed implements csimanager.ArmedGate.
func (g *gate) Changed() <-chan struct{} { return g.changed.C() }

func (g *gate) set(armed bool) {
	g.mu.Lock()
	same := g.armed == armed
	g.armed = armed
	g.mu.Unlock()
	if !same {
		g.changed.Notify()
	}
}

func newSession(c *Client, seen localstate.Seen) *session {
	return &session{c: c, seen: seen, registered: make(chan struct{}), ttl: defaultTTL, due: true}
}

func (s *session) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.c.host.ready:
	}
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"register":  s.keepRegistered,
		"heartbeat": s.heartbeats,
		"allocs":    s.watchAllocs,
	})
}

func (s *session) index() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.Index
}

// reregister asks for a registration as soon as possible.
func (s *session) reregister() {
	s.mu.Lock()
	s.due = true
	s.mu.Unlock()
	s.again.Notify()
}

func (s *session) takeDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due
	s.due = false
	return due
}

// keepRegistered registers the node now and whenever its description changed. Changes are gathered only while a call is
// under way.
func (s *session) keepRegistered(ctx context.Context) error {
	for attempt := 0; ; {
		described, again := s.c.host.changed.C(), s.again.C()
		if s.takeDue() {
			if err := s.register(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				s.unreachable("register the node", err)
				s.reregister()
				if !sleep(ctx, attempt) {
					return nil
				}
				attempt++
				continue
			}
			attempt = 0
			select {
			case <-described: // it changed during the call, which may have told the old one
				s.reregister()
			default:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-described:
			s.reregister()
		case <-again:
		}
	}
}

func (s *session) register(ctx context.Context) error {
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := wire.NodeRegister.Call(cctx, s.c.conn, &wire.NodeRegisterRequest{NodeIdentity: s.c.Identity(), Info: s.c.host.node()})
	if err != nil {
		return err
	}
	s.mu.Lock()
	first := s.incarnation == ""
	other := s.incarnation != reply.Incarnation
	s.incarnation = reply.Incarnation
	if reply.HeartbeatTTL > 0 {
		s.ttl = reply.HeartbeatTTL
	}
	if s.seen.Incarnation != "" && s.seen.Incarnation != reply.Incarnation {
		s.c.log.Warn("the servers' state is of another incarnation: it was restored or begun anew; what runs here is kept until they say otherwise, allocation by allocation",
			"before", s.seen.Incarnation, "now", reply.Incarnation)
		s.seen = localstate.Seen{Incarnation: reply.Incarnation}
	}
	s.seen.Incarnation = reply.Incarnation
	s.mu.Unlock()
	if other {
		s.gate.set(false)
	}
	s.reachable()
	if first {
		s.c.log.Info("the node is registered", logkey.Node, s.c.id.Node)
		close(s.registered)
		s.c.push.everything()
	}
	return nil
}

// heartbeats renews the node's time to live at half of it; after a failure sooner.
func (s *session) heartbeats(ctx context.Context) error {
	if !s.awaitRegistered(ctx) {
		return nil
	}
	failures := 0
	for {
		s.mu.Lock()
		pause := s.ttl / 2
		s.mu.Unlock()
		if failures > 0 {
			pause = min(pause, backoff(failures))
		}
		if !lapse(ctx, pause) {
			return nil
		}
		cctx, cancel := context.WithTimeout(ctx, callTimeout)
		reply, err := wire.NodeHeartbeat.Call(cctx, s.c.conn, &wire.NodeHeartbeatRequest{NodeIdentity: s.c.Identity()})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failures++
			s.unreachable("send a heartbeat", err)
			continue
		}
		failures = 0
		s.reachable()
		s.mu.Lock()
		if reply.TTL > 0 {
			s.ttl = reply.TTL
		}
		s.mu.Unlock()
		if reply.Reregister {
			s.reregister()
			s.c.push.everything()
		}
	}
}

// watchAllocs follows the set of this node's allocs for as long as the node runs. Without a stream the node is not armed.
func (s *session) watchAllocs(ctx context.Context) error {
	if !s.awaitRegistered(ctx) {
		return nil
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		received, err := s.stream(ctx)
		s.gate.set(false)
		if ctx.Err() != nil {
			return nil
		}
		if received {
			attempt = 0
		}
		if err != nil {
			s.unreachable("follow the node's allocations", err)
		}
		if fault.Has(err, fault.NotFound) || fault.Has(err, fault.Conflict) {
			s.reregister()
		}
		sleep(ctx, attempt)
	}
	return nil
}

func (s *session) stream(ctx context.Context) (received bool, err error) {
	sctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := wire.NodeAllocs.Open(sctx, s.c.conn, &wire.NodeAllocsRequest{NodeIdentity: s.c.Identity()})
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
		received = true
	}
}

// take acts on one set. A set of another incarnation than the registration's starts the session anew; one that is older
// than what the node has acted on ends the stream, because its server lags behind: another try may find a better one.
func (s *session) take(ctx context.Context, set *wire.AllocSet) error {
	s.mu.Lock()
	seen, incarnation := s.seen, s.incarnation
	s.mu.Unlock()
	if set.Incarnation != incarnation {
		return fault.New(fault.Conflict, "receive", "the node's allocations", "they are of another incarnation than the registration")
	}
	if set.Index < seen.Index {
		return fault.New(fault.NotReady, "receive", "the node's allocations",
			fmt.Sprintf("the server is at index %d, this node has seen %d", set.Index, seen.Index))
	}
	next := localstate.Seen{Incarnation: incarnation, Index: set.Index}
	if err := s.c.allocs.apply(ctx, set, next); err != nil {
		return err
	}
	s.mu.Lock()
	s.seen = next
	s.mu.Unlock()
	if set.Full {
		s.gate.set(true)
	}
	return nil
}

func (s *session) awaitRegistered(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.registered:
		return true
	}
}

// unreachable says once that the servers don't answer; everything that runs goes on.
func (s *session) unreachable(what string, err error) {
	s.mu.Lock()
	said := s.silent
	s.silent = true
	s.mu.Unlock()
	if !said {
		s.c.log.Warn("the servers can't be reached; what runs goes on", "tried", what, logkey.Error, err)
	}
}

func (s *session) reachable() {
	s.mu.Lock()
	said := s.silent
	s.silent = false
	s.mu.Unlock()
	if said {
		s.c.log.Info("the servers answer again")
	}
}

// backoff is the pause before the next try after a number of failures: doubling, with jitter.
func backoff(failures int) time.Duration {
	d := min(minSessionPause<<min(failures, 8), maxSessionPause)
	return d - rand.N(d/4+1)
}

func sleep(ctx context.Context, failures int) bool { return lapse(ctx, backoff(failures)) }

func lapse(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Package denied owns the end of the connections of nodes that are let in no more: a certificate that was issued before
// is good for hours, and what is open was judged when it was opened. Only package server constructs it.
package denied

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Connections are those of nodes to this server.
type Connections struct {
	Store *state.Store
	Log   *slog.Logger
	// Rooted: nodes are let in by the roots of the state.
	Rooted bool

	entered lifecycle.Signal

	mu   sync.Mutex
	open map[*conn]bool
}

// Guard notes the connections that a listener accepts.
func (c *Connections) Guard(at net.Listener) net.Listener { return &listener{at, c} }

// Run ends the connections of nodes as they are denied, and of those whose certificate carries none any more, until ctx
// ends. Every server runs it.
func (c *Connections) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		entered := c.entered.C()
		s, w := c.Store.Snapshot(), state.NewWatch()
		s.Denied(w, "")
		ended, next := c.refused(s, c.roots(s, w), joining.RootsAsOf(s), time.Now())
		for of, why := range ended {
			c.Log.Warn("a node's connection ends: "+why, "node", of.who.ID, "address", of.RemoteAddr().String())
			_ = of.Close() // whatever becomes of it, nobody reads it any more
		}
		w.Add(entered)
		until, cancel := ctx, context.CancelFunc(func() {})
		if !next.IsZero() { // timers of a machine that was suspended stood still
			until, cancel = context.WithTimeout(ctx, min(maxNap, time.Until(next)+time.Millisecond))
		}
		_ = w.Wait(until) // the end of ctx ends the loop
		cancel()
	}
	return nil
}

// maxNap bounds how long a connection is not looked at whose certificate will be over.
const maxNap = time.Minute

// roots are those that a state trusts; none: it knows none yet.
func (c *Connections) roots(s *state.Snap, w *state.Watch) []*x509.Certificate {
	a := s.Authority(w)
	if a == nil || !c.Rooted {
		return nil
	}
	roots, _, err := trust.Trusted(a.Root, a.Former)
	if err != nil {
		c.Log.Error("connections that a forgotten root has let in are not ended", logkey.Error, err)
		return nil
	}
	return roots
}

// refused are the open connections that a state, whose roots changed last at an index, lets in no more, and why; next
// is when another one is over.
func (c *Connections) refused(
	s *state.Snap, roots []*x509.Certificate, asOf uint64, now time.Time,
) (out map[*conn]string, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out = map[*conn]string{}
	for of := range c.open {
		by := roots
		if of.asOf == asOf {
			by = nil // they have not changed since it was judged
		}
		why := stands(of.who.Leaf, by, now)
		of.asOf = asOf
		if joining.Refuses(s, of.who) {
			why = "the node is denied"
		}
		if why != "" {
			out[of] = why
		} else if leaf := of.who.Leaf; leaf != nil && (next.IsZero() || overdue(leaf).Before(next)) {
			next = overdue(leaf)
		}
	}
	return out, next
}

// enter notes a connection; false: its node is denied.
func (c *Connections) enter(of *conn) bool {
	c.mu.Lock()
	if c.open == nil {
		c.open = map[*conn]bool{}
	}
	c.open[of] = true
	c.mu.Unlock()
	c.entered.Notify() // the roots may have changed since it was judged
	// It is noted first: a denial comes either before this look, or finds it.
	return !joining.Refuses(c.Store.Snapshot(), of.who)
}

func (c *Connections) leave(of *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, of)
}

type listener struct {
	net.Listener
	all *Connections
}

// Accept returns the next connection of who is let in.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who, known := wire.At(raw)
		if !known || who.Role != trust.Node {
			return raw, nil
		}
		c := &conn{Conn: raw, who: who, all: l.all}
		if l.all.enter(c) {
			return c, nil
		}
		_ = c.Close() // it was let in before the denial came
	}
}

// conn is a connection of a node.
type conn struct {
	net.Conn
	who trust.Peer
	all *Connections
	// asOf is the index at which the roots had changed last by which it was judged; guarded by all.mu.
	asOf uint64
}

// Peer tells who is at the other end.
func (c *conn) Peer() trust.Peer { return c.who }

// Close ends the connection.
func (c *conn) Close() error {
	c.all.leave(c)
	return c.Conn.Close()
}

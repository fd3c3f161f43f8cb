// Package denied owns the end of the connections of nodes that are let in no more: a certificate that was issued before
// is good for hours. Only package server constructs it.
package denied

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Connections are those of nodes to this server.
type Connections struct {
	Store *state.Store
	Log   *slog.Logger

	mu   sync.Mutex
	open map[*conn]bool
}

// Guard notes the connections that a listener accepts.
func (c *Connections) Guard(at net.Listener) net.Listener { return &listener{at, c} }

// Run ends the connections of nodes as they are denied, until ctx ends. Every server runs it.
func (c *Connections) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		s, w := c.Store.Snapshot(), state.NewWatch()
		s.Denied(w, "")
		for _, of := range c.refused(s) {
			c.Log.Warn("a node's connection ends: the node is denied", "node", of.who.ID, "address",
				of.RemoteAddr().String())
			_ = of.Close() // whatever becomes of it, nobody reads it any more
		}
		_ = w.Wait(ctx) // the end of ctx ends the loop
	}
	return nil
}

// refused are the open connections of those whom a state lets in no more.
func (c *Connections) refused(s *state.Snap) []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*conn
	for of := range c.open {
		if joining.Refuses(s, of.who) {
			out = append(out, of)
		}
	}
	return out
}

// enter notes a connection; false: its node is denied.
func (c *Connections) enter(of *conn) bool {
	c.mu.Lock()
	if c.open == nil {
		c.open = map[*conn]bool{}
	}
	c.open[of] = true
	c.mu.Unlock()
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
}

// Peer tells who is at the other end.
func (c *conn) Peer() trust.Peer { return c.who }

// Close ends the connection.
func (c *conn) Close() error {
	c.all.leave(c)
	return c.Conn.Close()
}

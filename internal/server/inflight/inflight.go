// Package inflight owns how much nodes may have on their way to a server at once: what has arrived of their calls that
// are not answered yet, the calls, and the connections, of each node over all its connections together. Only the server
// imports it.
package inflight

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"golang.org/x/net/http2"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/seldom"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

// Bounds are what one node may have at once.
type Bounds struct {
	Bytes   int // that have arrived of calls which are not answered
	Message int // bytes of one message: more of one stream is not in memory
	Calls   int
	Conns   int
}

// Default leaves room for all people who ask by the node's agent, which has at most 4096 connections of theirs.
var Default = Bounds{Bytes: 256 << 20, Message: wire.MaxRequest, Calls: 6 << 10, Conns: 32}

// Limiter counts what nodes have. Servers are not counted: they pass on what they have judged.
type Limiter struct {
	bounds  Bounds
	log     *slog.Logger
	refused seldom.Log

	mu sync.Mutex
	of map[string]*node
}

// node is what one has, by its certificate.
type node struct {
	bytes int
	calls int
	conns int
}

// New returns a limiter that has let nobody in.
func New(b Bounds, log *slog.Logger) *Limiter {
	return &Limiter{bounds: b, log: log, of: map[string]*node{}}
}

// Guard bounds the connections of a listener.
func (l *Limiter) Guard(at net.Listener) net.Listener { return &listener{at, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection that is let in.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who, known := wire.At(c)
		if !known || who.Role != trust.Node {
			return c, nil
		}
		if in := l.limiter.enter(c, who); in != nil {
			return in, nil
		}
		_ = c.Close() // the node dials anew
	}
}

// enter counts a connection; nil: it is refused.
func (l *Limiter) enter(nc net.Conn, who trust.Peer) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.of[who.ID]
	if n == nil {
		n = &node{}
		l.of[who.ID] = n
	}
	if n.conns >= l.bounds.Conns {
		_ = l.tooMuch(who, fmt.Sprintf("%d connections", n.conns))
		return nil
	}
	n.conns++
	return &conn{
		Conn:    nc,
		limiter: l,
		who:     who,
		node:    n,
		calls:   map[uint32]int{},
		reading: frames{skip: len(http2.ClientPreface)},
	}
}

// tooMuch says what a node has too much of, in the log, too.
func (l *Limiter) tooMuch(who trust.Peer, what string) error {
	err := fault.New(fault.Exhausted, "serve", who.String(), "it has "+what+" at once, and may have no more")
	if missed, say := l.refused.Say(); say {
		l.log.Warn("a connection of a node was ended", logkey.Node, who.ID, "not_said_before", missed,
			logkey.Error, err)
	}
	return err
}

// conn is a connection of a node. It reads along, in both directions, which calls begin and end, and what has arrived
// of them: gRPC puts a message together before anybody is asked about it.
type conn struct {
	net.Conn
	limiter *Limiter
	who     trust.Peer

	// The limiter's lock is over these.
	node    *node
	calls   map[uint32]int // what has arrived, in bytes, by the stream of each call that is not answered
	newest  uint32         // of the streams
	reading frames         // what comes
	writing frames         // what goes
}

// Peer is who is at the other end.
func (c *conn) Peer() trust.Peer { return c.who }

// Read implements net.Conn. Who has too much on its way is hung up on: that ends its calls.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.node == nil {
		return n, err
	}
	c.reading.feed(p[:n], c.comes)
	b := c.limiter.bounds
	switch {
	case c.node.bytes > b.Bytes:
		return 0, c.limiter.tooMuch(c.who, fmt.Sprintf("%d MiB of calls that are not answered", c.node.bytes>>20))
	case c.node.calls > b.Calls:
		return 0, c.limiter.tooMuch(c.who, fmt.Sprintf("%d calls", c.node.calls))
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.limiter.mu.Lock()
	if c.node != nil {
		c.writing.feed(p, c.goes)
	}
	c.limiter.mu.Unlock()
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	if c.node != nil {
		for stream := range c.calls {
			c.ended(stream)
		}
		if c.node.conns--; c.node.conns == 0 {
			delete(c.limiter.of, c.who.ID)
		}
		c.node = nil
	}
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// comes follows a piece of a frame that the node sends.
func (c *conn) comes(f *frames, n int) {
	switch f.kind {
	case http2.FrameHeaders, http2.FrameContinuation, http2.FrameData:
		if f.kind == http2.FrameHeaders && f.stream > c.newest {
			c.newest = f.stream
			c.calls[f.stream] = 0
			c.node.calls++
		}
		if had, open := c.calls[f.stream]; open {
			c.calls[f.stream] = min(had+n, c.limiter.bounds.Message)
			c.node.bytes += c.calls[f.stream] - had
		}
	case http2.FrameRSTStream:
		c.ended(f.stream)
	}
}

// goes follows a piece of a frame that the server sends: with the end of its stream a call is answered.
func (c *conn) goes(f *frames, _ int) {
	if f.kind == http2.FrameRSTStream || f.kind == http2.FrameHeaders && f.flags.Has(http2.FlagHeadersEndStream) {
		c.ended(f.stream)
	}
}

func (c *conn) ended(stream uint32) {
	if had, open := c.calls[stream]; open {
		c.node.bytes -= had
		c.node.calls--
		delete(c.calls, stream)
	}
}

// frames follows where the frames of HTTP/2 (RFC 9113, section 4.1) begin in what passes by in pieces.
type frames struct {
	skip int // bytes before the first
	head [9]byte
	have int // bytes of the head
	left int // bytes of the payload that are still to come

	kind   http2.FrameType
	flags  http2.Flags
	stream uint32
}

// feed tells of each piece of a frame, and of the head of each, by a piece of nothing.
func (f *frames) feed(p []byte, each func(f *frames, n int)) {
	n := min(f.skip, len(p))
	f.skip -= n
	for p = p[n:]; len(p) > 0; p = p[n:] {
		if f.left > 0 {
			n = min(f.left, len(p))
			f.left -= n
			each(f, n)
			continue
		}
		n = copy(f.head[f.have:], p)
		if f.have += n; f.have < len(f.head) {
			continue
		}
		f.have = 0
		f.left = int(binary.BigEndian.Uint32(f.head[:4]) >> 8)
		f.kind, f.flags = http2.FrameType(f.head[3]), http2.Flags(f.head[4])
		f.stream = binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
		each(f, 0)
	}
}

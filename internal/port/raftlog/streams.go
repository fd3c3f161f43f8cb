package raftlog

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/port/raftlog/files"
)

// Network connects the servers' logs: Raft runs over streams that servers open to each other. A server's address is its
// id; Network knows where it is found.
type Network interface {
	// Open opens a stream to another server.
	Open(ctx context.Context, server string) (net.Conn, error)
	// Listener yields the streams that other servers opened. It is closed with the log; the next run asks for another.
	Listener() net.Listener
}

// Bounds of the streams between servers.
const (
	streamTimeout = 10 * time.Second // of one exchange, for each 256 KiB of a snapshot
	idleStreams   = 3                // kept for each server
)

// streams is what the library asks for.
type streams struct {
	net.Listener
	open func(server string, within time.Duration) (net.Conn, error)
}

// Dial implements raft.StreamLayer.
func (s streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.open(string(to), timeout)
}

// overStreams is the transport of a server over a network, which opens streams until ctx ends. It begins to accept at
// once: make it where it is used.
func overStreams(ctx context.Context, id string, n Network, log *slog.Logger) *raft.NetworkTransport {
	open := func(server string, within time.Duration) (net.Conn, error) {
		octx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return n.Open(octx, server)
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  streams{&accepting{Listener: n.Listener(), id: id}, open},
		MaxPool: idleStreams,
		Timeout: streamTimeout,
		// With more, the library sends ahead of the answers, and the first refusal of entries, as for want of room,
		// ends who reads these while the sender waits for them: for good, and a server that stops waits for it.
		MaxRPCsInFlight: 1,
		Logger:          files.NewTransportLogger(log),
	})
}

// accepting is a listener whose address is a server's id. What it has accepted ends with it: the library would go on to
// answer for a log that is closed.
type accepting struct {
	net.Listener
	id string

	mu     sync.Mutex
	closed bool
	held   map[*accepted]struct{}
}

// Addr implements net.Listener.
func (a *accepting) Addr() net.Addr { return address(a.id) }

// Accept implements net.Listener.
func (a *accepting) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	if a.held == nil {
		a.held = map[*accepted]struct{}{}
	}
	out := &accepted{c, a}
	a.held[out] = struct{}{}
	return out, nil
}

// Close implements net.Listener.
func (a *accepting) Close() error {
	a.mu.Lock()
	held := a.held
	a.closed, a.held = true, nil
	a.mu.Unlock()
	errs := []error{a.Listener.Close()}
	for c := range held {
		errs = append(errs, c.Conn.Close())
	}
	return errors.Join(errs...)
}

// accepted is a stream of another server.
type accepted struct {
	net.Conn
	from *accepting
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	c.from.mu.Lock()
	delete(c.from.held, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

type address string

// Network implements net.Addr.
func (address) Network() string { return "server" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

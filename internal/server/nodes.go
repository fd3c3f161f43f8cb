package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/trust"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Nodes holds the connections that nodes dialled for calls in the other direction, and knows which of the other servers
// have those of the nodes that are not connected here.
type Nodes struct {
	store   *state.Store
	cluster ways
	log     *slog.Logger

	mu      sync.Mutex
	conns   map[ids.Node]*grpc.ClientConn
	via     map[ids.Node]string    // servers by which nodes were heard that are not connected here
	refused map[ids.Node]string    // why a node's connections are, of nodes that there are; all others have one reason
	lost    map[ids.Node]time.Time // when the last connection ended of nodes that have none
	changed lifecycle.Signal
	began   time.Time
}

// ways are those between the servers.
type ways interface {
	// Route is serving.Cluster's.
	Route(ctx context.Context, relayed bool) (wire.Conn, error)
	// Leading: the calls of every node come to this server.
	Leading() bool
	// To is the way to another server, by which calls are passed on.
	To(server string) (wire.Conn, error)
}

func newNodes(store *state.Store, cluster ways, log *slog.Logger) *Nodes {
	return &Nodes{
		store:   store,
		cluster: cluster,
		log:     log,
		conns:   map[ids.Node]*grpc.ClientConn{},
		via:     map[ids.Node]string{},
		refused: map[ids.Node]string{},
		lost:    map[ids.Node]time.Time{},
		began:   time.Now(),
	}
}

// NodeConn returns the connection on which a node serves its methods, or the way to the server that has it. A node that
// is not connected is Unavailable.
func (n *Nodes) NodeConn(id ids.Node) (wire.Conn, error) {
	n.mu.Lock()
	c, via := n.conns[id], n.via[id]
	n.mu.Unlock()
	switch {
	case c != nil:
		return c, nil
	case via != "" && n.cluster.Leading():
		return n.cluster.To(via)
	case n.store.Snapshot().Node(nil, id) == nil:
		return nil, fault.New(fault.NotFound, "", fmt.Sprintf("node %q", id), "node not found")
	}
	return nil, fault.WithHint(
		fault.New(fault.Unavailable, "reach", fmt.Sprintf("node %q", id), "it is not connected to this server"),
		"it connects by itself when it is up; look at node status")
}

// heard notes from which server the calls of a node come; empty: from none, it is connected here.
func (n *Nodes) heard(id ids.Node, from string) {
	n.mu.Lock()
	was := n.via[id]
	if from == "" {
		delete(n.via, id)
	} else {
		n.via[id] = from
	}
	n.mu.Unlock()
	if was != from {
		n.changed.Notify()
	}
}

// Changed is closed at the next connect or disconnect of any node.
func (n *Nodes) Changed() <-chan struct{} { return n.changed.C() }

// run accepts reversed connections and keeps each until it breaks.
func (n *Nodes) run(ctx context.Context, listeners ...net.Listener) error {
	g, gctx := lifecycle.NewGroup(ctx)
	for _, l := range listeners {
		g.Go("accept "+l.Addr().String(), func() error { return n.accept(gctx, g, l) })
		g.Go("close "+l.Addr().String(), func() error {
			<-gctx.Done()
			_ = l.Close() // Accept returns; nothing else depends on it
			return nil
		})
	}
	return g.Wait()
}

func (n *Nodes) accept(ctx context.Context, g *lifecycle.Group, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept connections of nodes: %w", err)
		}
		g.Go("node connection",
			lifecycle.Isolated("node connection", func() error { return n.hold(ctx, c) }, func(err error) {
				n.refuse("", err)
			}))
	}
}

// refuse says why a connection ends. Its node dials again at once: the same reason again is said at debug.
func (n *Nodes) refuse(id ids.Node, err error) {
	s := n.store.Snapshot()
	gone := func(id ids.Node, _ string) bool { return id != "" && s.Node(nil, id) == nil }
	if gone(id, "") {
		id = ""
	}
	say, text := n.log.Warn, err.Error()
	n.mu.Lock()
	maps.DeleteFunc(n.refused, gone)
	if n.refused[id] == text {
		say = n.log.Debug
	}
	n.refused[id] = text
	n.mu.Unlock()
	say("a node's connection was refused; it dials again", logkey.Error, err)
}

// admitWait bounds how long a connection may come before its node has registered.
const admitWait = 10 * time.Second

// hold reads the greeting, makes sure of the node and lends the connection out until it breaks.
func (n *Nodes) hold(ctx context.Context, raw net.Conn) error {
	watched := make(chan struct{})
	c := &watchedConn{Conn: raw, closed: watched}
	defer func() { _ = c.Close() }() // whatever became of it: the node dials a new one
	id, conn, err := wire.ReceiveHello(c)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // as above
	if who, known := wire.At(raw); known && (who.Role != trust.Node || who.ID != string(id.Node)) {
		return fault.New(fault.Denied, "serve as", fmt.Sprintf("node %q", id.Node), "the caller is "+who.String())
	}
	if err := n.authenticate(ctx, id); err != nil {
		n.refuse(id.Node, err)
		return nil
	}
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if s == connectivity.TransientFailure || s == connectivity.Shutdown {
			return fault.New(fault.Unavailable, "connect", fmt.Sprintf("node %q", id.Node),
				"it does not answer on its connection")
		}
		if !conn.WaitForStateChange(ctx, s) {
			return nil
		}
	}
	n.put(id.Node, conn)
	defer n.take(id.Node, conn)
	defer n.log.Debug("node disconnected", logkey.Node, id.Node)
	if err := n.keep(ctx, id, watched); err != nil {
		n.refuse(id.Node, err)
	}
	return nil
}

// keep waits until the connection breaks, or another agent start of the node is obeyed than the one that greeted.
func (n *Nodes) keep(ctx context.Context, id wire.NodeIdentity, broken <-chan struct{}) error {
	for {
		s, w := n.store.Snapshot(), state.NewWatch()
		w.Add(broken)
		if _, err := nodes.Obeyed(s, w, id); err != nil {
			return err
		}
		if w.Wait(ctx) != nil {
			return nil
		}
		select {
		case <-broken:
			return nil
		default:
		}
	}
}

// authenticate waits until the node has registered, for a while, and checks its secret.
func (n *Nodes) authenticate(ctx context.Context, id wire.NodeIdentity) error {
	ctx, cancel := context.WithTimeout(ctx, admitWait)
	defer cancel()
	for {
		s, w := n.store.Snapshot(), state.NewWatch()
		s.Node(w, id.Node)
		_, err := nodes.Obeyed(s, w, id)
		if !fault.Has(err, fault.NotFound) {
			return err
		}
		if w.Wait(ctx) != nil {
			return err
		}
	}
}

func (n *Nodes) put(id ids.Node, c *grpc.ClientConn) {
	say := n.log.Debug
	n.mu.Lock()
	n.conns[id] = c
	delete(n.lost, id)
	if n.refused[id] != "" { // this ends what was said of it
		say = n.log.Info
		delete(n.refused, id)
	}
	n.mu.Unlock()
	say("a node is connected", logkey.Node, id)
	n.changed.Notify()
}

func (n *Nodes) take(id ids.Node, c *grpc.ClientConn) {
	n.mu.Lock()
	if n.conns[id] == c { // not replaced by a newer one
		delete(n.conns, id)
		maps.DeleteFunc(n.lost, func(_ ids.Node, at time.Time) bool { return time.Since(at) > rejoinWithin })
		n.lost[id] = time.Now()
	}
	n.mu.Unlock()
	n.changed.Notify()
}

// watchedConn tells when a connection is closed or broken.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Read notes the end.
func (c *watchedConn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	if err != nil && k == 0 {
		c.end()
	}
	return k, err
}

// Close notes the end.
func (c *watchedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *watchedConn) end() { c.once.Do(func() { close(c.closed) }) }

func hostPort(addr string, port uint16) string {
	return net.JoinHostPort(addr, strconv.Itoa(int(port)))
}

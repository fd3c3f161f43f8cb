// Package conns owns how many connections the HTTP API holds, in all and from one client, and what a client that
// sends slowly may take of them. Only httpapi and the agent, which names the bounds, import it.
package conns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/httpapi/access"
)

// Bounds of connections. Zero is none.
type Bounds struct {
	Total     int
	PerClient int // a user of the unix socket, an address of the port
}

// least and most connections in all that follow from what descriptors there are.
const (
	least = 64
	most  = 4096
	// kept are the descriptors that the rest of the agent has in any case: stores, drivers, shims, plugins.
	kept = 512
)

// Within are the bounds for an agent that may open so many descriptors: at least half of them stay for what it runs.
// One client has at most half of all connections, so that another always gets through.
func Within(descriptors uint64) Bounds {
	total := least
	if descriptors > 2*kept {
		total = int(min((descriptors-kept)/2, most))
	} else {
		total = max(total, int(descriptors/4))
	}
	return Bounds{Total: total, PerClient: total / 2}
}

// Of what others have, all tasks of a node together have a half, and one of them a sixteenth, or leastOfTask where that
// is more.
const (
	forTasks    = 2
	forTask     = 16
	leastOfTask = 16
)

// OfTasks are the bounds of the sockets of tasks, each of which is a client, whatever user connects.
func (b Bounds) OfTasks() Bounds {
	out := Bounds{Total: b.Total / forTasks, PerClient: min(b.PerClient, max(leastOfTask, b.PerClient/forTask))}
	if b.Total > 0 {
		out.Total = max(out.Total, 1)
	}
	return out
}

// forSocket is the part of all connections that those by a port leave for the unix socket: the agent's own people get
// through whatever comes from a network.
const forSocket = 4

// Gate counts the connections of all entries of the API together. When there are too many, one gives way: of the
// client's own where it has too many, else of all. First the oldest of those by the port on which no request was
// admitted yet, so that who may not use the API keeps nobody out who may; then the one that has been idle longest.
// Without any the newcomer is refused in HTTP's words.
type Gate struct {
	bounds    Bounds
	log       *slog.Logger
	lingering chan struct{}

	// Refused is how often this agent was asked for too much. Requests that it refuses are counted by their answers,
	// connections by the gate.
	Refused Refusals

	mu     sync.Mutex
	held   map[*conn]bool
	of     map[string]int // connections by client
	ports  int            // connections that came by a port
	warned time.Time
	aside  *Gate // of tasks; nil: it is that itself
}

// Refusals counts what was answered with 429, because a client asks for too much, and with 503, because all do.
type Refusals struct{ TooMany, Unavailable atomic.Uint64 }

// Count counts an answer, if it is one of these.
func (r *Refusals) Count(status int) {
	switch status {
	case http.StatusTooManyRequests:
		r.TooMany.Add(1)
	case http.StatusServiceUnavailable:
		r.Unavailable.Add(1)
	}
}

// New returns a gate that has let nobody in.
func New(b Bounds, log *slog.Logger) *Gate {
	g := gate(b, log)
	g.aside = gate(b.OfTasks(), log)
	return g
}

func gate(b Bounds, log *slog.Logger) *Gate {
	return &Gate{
		bounds:    b,
		log:       log,
		lingering: make(chan struct{}, maxLingering),
		held:      map[*conn]bool{},
		of:        map[string]int{},
	}
}

// Tasks is another gate, with bounds of its own: whoever comes by it takes nobody's place at the first. There each
// listener is a client: all tasks without a user of their own are one user. When all places are taken by requests at
// work, who has the most of them makes room for who has less: its oldest connection is cut, however busy it is.
func (g *Gate) Tasks() *Gate { return g.aside }

// Bound has other bounds hold from now on. Connections that are there stay: the next one finds them too many.
func (g *Gate) Bound(b Bounds) {
	if g.aside != nil {
		g.aside.Bound(b.OfTasks())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bounds = b
}

// introduction is how long a client may take for the header of a request. Who shows no token has no more than that in
// all: the connection of a request that is not admitted ends with the answer (Refused).
const introduction = 10 * time.Second

type connKey struct{}

// Admitted notes that a request may use the API: its connection gives way to others only when it is idle.
func Admitted(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.admitted = true
	}
}

// Client is whose connection a request came by, as the bounds count it.
func Client(r *http.Request) string {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c.client
	}
	return r.RemoteAddr
}

// Serve answers what comes through a listener until ctx ends. Open streams are cut then; requests under way get a short
// time to end.
func (g *Gate) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	work, ctx := lifecycle.NewGroup(ctx)
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: introduction,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(access.WithPeer(ctx, c), connKey{}, c)
		},
		ConnState: g.follow,
	}
	work.Go("http "+l.Addr().String(), func() error {
		if err := srv.Serve(&listener{l, g, work}); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	work.Go("shutdown", func() error {
		<-ctx.Done()
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
		defer cancel()
		if srv.Shutdown(sctx) != nil {
			return srv.Close()
		}
		return nil
	})
	return work.Wait()
}

// listener guards one.
type listener struct {
	net.Listener
	gate *Gate
	work *lifecycle.Group // that refuses
}

// Accept returns the next connection that is let in. An error is that of the listener: http.Server tries again after
// one that passes, such as no free descriptor, and says so to nobody.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			l.gate.failed(err)
			return nil, err
		}
		if in := l.gate.enter(c, l.clientOf(c), l.work); in != nil {
			return in, nil
		}
	}
}

// clientOf is whose connection one is.
func (l *listener) clientOf(c net.Conn) string {
	if l.gate.aside == nil {
		return "the task with " + l.Addr().String()
	}
	return access.Client(c)
}

// conn is a connection that was let in.
type conn struct {
	net.Conn
	gate   *Gate
	client string
	port   bool      // it came by a port, not by the unix socket
	since  time.Time // when it came
	idle   time.Time // since when; zero: it is at work, or was never used
	// admitted says that a request on it was. By the unix socket only those come who may: the kernel keeps others out.
	admitted bool
}

// NetConn is what it wraps, for who asks the kernel about it.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.gate.leave(c)
	return c.Conn.Close()
}

// enter counts a connection; nil: it was refused, and is closed.
func (g *Gate) enter(nc net.Conn, client string, work *lifecycle.Group) *conn {
	c := &conn{
		Conn:   nc,
		gate:   g,
		client: client,
		port:   nc.LocalAddr().Network() != "unix",
		since:  time.Now(),
	}
	c.admitted = !c.port
	g.mu.Lock()
	bounds := g.bounds
	ofClient := bounds.PerClient > 0 && g.of[c.client] >= bounds.PerClient
	ofPorts := bounds.Total > 0 && c.port && g.ports >= bounds.Total-bounds.Total/forSocket
	inAll := ofPorts || bounds.Total > 0 && len(g.held) >= bounds.Total
	var spare *conn
	switch {
	case ofClient:
		spare = g.spare(func(o *conn) bool { return o.client == c.client })
	case inAll:
		spare = g.spare(func(o *conn) bool { return o.port || !ofPorts })
		if spare == nil && g.aside == nil {
			spare = g.ofTheGreediest(client)
		}
	}
	if spare != nil {
		g.forget(spare)
	}
	refused := (ofClient || inAll) && spare == nil
	if !refused {
		g.held[c] = true
		g.of[c.client]++
		if c.port {
			g.ports++
		}
	}
	warn := refused && g.mayWarn()
	g.mu.Unlock()
	if spare != nil {
		_ = hangUp(spare.Conn) // nobody waits for an answer on it
	}
	if !refused {
		return c
	}
	why, status := fmt.Sprintf("this agent has %d connections, as many as it takes", bounds.Total),
		http.StatusServiceUnavailable
	if ofClient {
		why = fmt.Sprintf("this client has %d connections, as many as one may have", bounds.PerClient)
		status = http.StatusTooManyRequests
	}
	if warn {
		g.log.Warn("a connection to the HTTP API was refused", "client", c.client, "why", why)
	}
	g.Refused.Count(status)
	g.refuse(work, nc, status, why+"; close some, or use one for more requests\n")
	return nil
}

// hangUp closes a connection at once: to end one with TLS in good order waits for a client that may not listen.
func hangUp(c net.Conn) error {
	if under, wraps := c.(interface{ NetConn() net.Conn }); wraps {
		c = under.NetConn()
	}
	return c.Close()
}

// lingers is how long, and maxLingering how many connections wait for what a refused client sends, before the answer
// and after it. Whoever is answered before it has asked takes that for a connection that broke: Go's client says so by
// an error without a reason. And were it closed at once after the answer, the kernel would throw that away with the
// request that nobody read.
const (
	lingers      = time.Second
	maxLingering = 64
)

// refuse says why when it is asked, and hangs up. Beyond maxLingering it only hangs up.
func (g *Gate) refuse(work *lifecycle.Group, c net.Conn, status int, why string) {
	select {
	case g.lingering <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	if !work.Go("refusal", func() error {
		defer func() { <-g.lingering }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(lingers))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return nil // nobody asks
		}
		_ = c.SetDeadline(time.Now().Add(lingers))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
			"Connection: close\r\n\r\n%s", status, http.StatusText(status), len(why), why)
		if half, can := c.(interface{ CloseWrite() error }); can && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
		}
		return nil
	}) {
		<-g.lingering
		_ = c.Close()
	}
}

// spare is the connection that gives way to another, of those that may; nil: there is none. The caller holds the lock.
func (g *Gate) spare(may func(*conn) bool) *conn {
	var oldest *conn
	for c := range g.held {
		if !c.admitted && may(c) && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest != nil {
		return oldest
	}
	return g.oldestIdle(may)
}

// oldestIdle is the connection that has been idle longest of those that may give way. The caller holds the lock.
func (g *Gate) oldestIdle(may func(*conn) bool) *conn {
	var oldest *conn
	for c := range g.held {
		if !c.idle.IsZero() && may(c) && (oldest == nil || c.idle.Before(oldest.idle)) {
			oldest = c
		}
	}
	return oldest
}

// ofTheGreediest is the oldest connection of the client that has the most, if it has more than another would with one
// more; nil: that one has its share. The caller holds the lock.
func (g *Gate) ofTheGreediest(other string) *conn {
	var found *conn
	for c := range g.held {
		switch {
		case g.of[c.client] <= g.of[other]+1:
		case found == nil, g.of[c.client] > g.of[found.client],
			g.of[c.client] == g.of[found.client] && c.since.Before(found.since):
			found = c
		}
	}
	return found
}

func (g *Gate) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(c)
}

// forget takes a connection out, once. The caller holds the lock.
func (g *Gate) forget(c *conn) {
	if !g.held[c] {
		return
	}
	delete(g.held, c)
	if c.port {
		g.ports--
	}
	if g.of[c.client]--; g.of[c.client] == 0 {
		delete(g.of, c.client)
	}
}

// follow is the hook of an http.Server that says which connections are idle.
func (g *Gate) follow(nc net.Conn, s http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.idle = time.Time{}
	if s == http.StateIdle {
		c.idle = time.Now()
	}
}

// failed reports that a listener could not accept.
func (g *Gate) failed(err error) {
	if errors.Is(err, net.ErrClosed) {
		return // the agent ends
	}
	g.mu.Lock()
	warn := g.mayWarn()
	g.mu.Unlock()
	if warn {
		g.log.Warn("the HTTP API cannot accept a connection; it tries again", logkey.Error, err)
	}
}

// warnPause is between two warnings: whoever floods the agent does not flood its log.
const warnPause = 10 * time.Second

// mayWarn reports whether it is time for a warning. The caller holds the lock.
func (g *Gate) mayWarn() bool {
	now := time.Now()
	if now.Sub(g.warned) < warnPause {
		return false
	}
	g.warned = now
	return true
}

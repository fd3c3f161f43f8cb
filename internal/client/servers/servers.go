// Package servers owns a node's way to its servers: the connection that it calls them on, who it is to them, whether
// they have accepted it, and whether they answer. Only package client and what it is made of import it.
package servers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/base/retry"
	"berth/internal/base/seldom"
	"berth/internal/client/localstate"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

// CallTimeout bounds a call that is answered at once.
const CallTimeout = 10 * time.Second

// Pause is how long the node waits after so many failures in a row.
var Pause = retry.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Dialer opens raw connections to a server.
type Dialer interface {
	Dial(context.Context) (net.Conn, error)
}

// Link is the way to the servers. Use Connect.
type Link struct {
	conn       *grpc.ClientConn
	id         localstate.Identity
	log        *slog.Logger
	registered chan struct{} // closed at the first registration
	first      sync.Once
	changed    lifecycle.Signal // the servers accept this agent start, or do so no longer
	learn      func(servers []trust.ServerAt, rootsAsOf uint64) error
	missed     seldom.Log // of what could not be learned

	mu       sync.Mutex
	silent   bool   // the servers did not answer the last time
	hindered string // what keeps the node from doing what they ask; empty: nothing
	epoch    string // of this agent start; empty: it was never accepted
	accepted bool
	refusal  error // why the servers obey another agent start; nil: they do not
	patience time.Duration
}

// Connect returns a link that dials when it is first used. learn remembers where the servers are, and hears at which
// index of their state the roots of the cluster last changed; nil: the node finds them in another way.
func Connect(
	d Dialer, id localstate.Identity, learn func(servers []trust.ServerAt, rootsAsOf uint64) error, log *slog.Logger,
) (*Link, error) {
	conn, err := wire.Connect(d.Dial)
	if err != nil {
		return nil, err
	}
	return &Link{
		conn:       conn,
		id:         id,
		learn:      learn,
		log:        log,
		registered: make(chan struct{}),
	}, nil
}

// Learn remembers where the servers are, so that another one is asked at once when the present one fails; and hears
// whether the roots of the cluster have changed, 0: not said.
func (l *Link) Learn(all []trust.ServerAt, rootsAsOf uint64) {
	if l.learn == nil {
		return
	}
	err := l.learn(all, rootsAsOf)
	if err == nil {
		return
	}
	if missed, say := l.missed.Say(); say {
		l.log.Error("the list of servers could not be written; it is tried again at the next heartbeat",
			"not_said_before", missed, logkey.Error, err)
	}
}

// Close ends the connection.
func (l *Link) Close() error { return l.conn.Close() }

// Conn is the connection on which the node calls servers.
func (l *Link) Conn() wire.Conn { return l.conn }

// Node is the node's id.
func (l *Link) Node() ids.Node { return l.id.Node }

// Secret authenticates the node.
func (l *Link) Secret() redact.Secret { return l.id.Secret }

// Identity authenticates the node, and this start of its agent, on the wire.
func (l *Link) Identity() wire.NodeIdentity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wire.NodeIdentity{
		Node:    l.id.Node,
		Secret:  wire.Seal(redact.Map{"id": l.id.Secret}),
		Session: l.epoch,
	}
}

// Registered is closed once the node has been accepted by a server.
func (l *Link) Registered() <-chan struct{} { return l.registered }

// Accepted says that the servers obey this agent start, of an epoch, and how long they do without hearing of it; zero:
// they did not say.
func (l *Link) Accepted(epoch string, patience time.Duration) {
	l.mu.Lock()
	again := l.refusal != nil
	l.epoch, l.patience = epoch, patience
	l.accepted, l.refusal = true, nil
	l.mu.Unlock()
	l.first.Do(func() {
		l.log.Info("the node is registered", logkey.Node, l.id.Node)
		close(l.registered)
	})
	if again {
		l.log.Info("the servers accept this agent again", logkey.Node, l.id.Node)
	}
	l.changed.Notify()
}

// Refused says, once, that the servers obey another agent start of this node. Nothing is asked of them until they
// accept this one.
func (l *Link) Refused(err error) {
	l.mu.Lock()
	first := l.refusal == nil
	l.accepted, l.refusal = false, err
	l.mu.Unlock()
	if first {
		l.log.Warn("the servers do not accept this agent; what runs here goes on, nothing new is started", logkey.Node,
			l.id.Node, logkey.Error, err)
	}
	l.changed.Notify()
}

// Refusal says why the servers do not accept this agent; nil: they do, or were not reached yet.
func (l *Link) Refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

// Fresh reports whether an answer is for this agent start, and came so soon after the question that the servers cannot
// have given the node up meanwhile.
func (l *Link) Fresh(epoch string, took time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return epoch == l.epoch && (l.patience <= 0 || took <= l.patience/2)
}

// Changed is closed when the servers accept this agent start anew, or do not any more. Take it before what they are
// asked, or a change is missed.
func (l *Link) Changed() <-chan struct{} { return l.changed.C() }

// AwaitRegistered waits until the servers accept this agent start; false when ctx ended before.
func (l *Link) AwaitRegistered(ctx context.Context) bool {
	for {
		changed := l.changed.C()
		l.mu.Lock()
		accepted := l.accepted
		l.mu.Unlock()
		if accepted {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// Own is a failure of the node itself: the servers answered, and it could not do what they ask.
type Own struct{ Err error }

// Error implements error.
func (o *Own) Error() string { return o.Err.Error() }

// Unwrap gives the failure itself.
func (o *Own) Unwrap() error { return o.Err }

// Failed says once that the servers don't answer, or what of the node's own is in the way; what runs goes on.
func (l *Link) Failed(tried string, err error) {
	var own *Own
	switch {
	case errors.As(err, &own):
		if l.setHindered(own.Error()) {
			l.log.Warn("the node cannot do what the servers ask; it is tried again, and what runs goes on",
				"tried", tried, logkey.Error, own.Err)
		}
	case l.setSilent(true):
		l.log.Warn("the servers can't be reached; what runs goes on", "tried", tried, logkey.Error, err)
	}
}

// Done says once that the node does again what the servers ask.
func (l *Link) Done() {
	if l.setHindered("") {
		l.log.Info("the node does again what the servers ask")
	}
}

func (l *Link) setHindered(why string) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = l.hindered != why
	l.hindered = why
	return changed
}

// Reachable says once that the servers answer again.
func (l *Link) Reachable() {
	if l.setSilent(false) {
		l.log.Info("the servers answer again")
	}
}

func (l *Link) setSilent(silent bool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = l.silent != silent
	l.silent = silent
	return changed
}

// Repeat runs one exchange after the other until ctx ends, with a growing pause between those that failed at once.
func (l *Link) Repeat(ctx context.Context, name string, exchange func(context.Context) error) error {
	for failures := 1; l.AwaitRegistered(ctx); failures++ {
		begun := time.Now()
		err := exchange(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > Pause.Max {
			failures = 1
		}
		l.log.Debug("an exchange with the servers ended", "exchange", name, logkey.Error, err)
		if !Pause.Sleep(ctx, failures) {
			break
		}
	}
	return nil
}

// Gate says whether the node may undo what is not wanted any more: it is armed, or it follows no servers at all, so
// that nobody but itself says what is wanted. The zero value is closed.
type Gate struct {
	mu      sync.Mutex
	armed   bool
	changed lifecycle.Signal
}

// Armed implements csimanager.ArmedGate.
func (g *Gate) Armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.armed
}

// Changed implements csimanager.ArmedGate.
func (g *Gate) Changed() <-chan struct{} { return g.changed.C() }

// Set opens or closes the gate.
func (g *Gate) Set(armed bool) {
	g.mu.Lock()
	same := g.armed == armed
	g.armed = armed
	g.mu.Unlock()
	if !same {
		g.changed.Notify()
	}
}

// Await waits until the node is armed; false when ctx ended before.
func (g *Gate) Await(ctx context.Context) bool {
	for {
		changed := g.Changed()
		if g.Armed() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// Package controllers owns the way of controller calls from the leader to the nodes that make them: which node makes a
// call (its executor), the lane in which the calls of one volume queue, the call itself and its result, and how a
// doubtful result is verified. Which calls are made is decided by the keepers of claims and volumes.
package controllers

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// Secrets opens entries of the secret store, for the calls that need them.
type Secrets interface {
	// Secrets returns the values of a named entry, empty for the empty name.
	Secrets(name string) (wire.Secrets, error)
}

// Nodes are the connections on which nodes answer reads.
type Nodes interface {
	// NodeConn returns a node's connection, or fault.Unavailable.
	NodeConn(ids.Node) (wire.Conn, error)
	// Await waits a moment for one that is about to connect anew.
	Await(context.Context, ids.Node) (wire.Conn, error)
}

// Dispatcher hands controller calls to connected nodes.
type Dispatcher struct {
	changed lifecycle.Signal
	mu      sync.Mutex
	began   time.Time // of the term of leadership
	nodes   map[ids.Node]*nodeStream
	lost    map[ids.Node]time.Time // when the stream of a node ended that has none
	lanes   map[laneKey]*lane
	debts   map[laneKey]debt // a volume has one at most; of streams that have ended none counts
}

// laneKey names a volume as its provider knows it: two names of one volume share a lane.
type laneKey struct {
	plugin     ids.Plugin
	externalID string
}

// lane is the queue of one volume's controller calls; it exists while a caller holds it or waits for it.
type lane struct {
	held  chan struct{} // full while a caller holds the lane
	users int
}

// nodeStream is one node's open stream of controller calls.
type nodeStream struct {
	stream  *wire.Stream[wire.ControllerCall, wire.ControllerResult]
	send    sync.Mutex
	credits Credits
	slots   map[slotKey]*slots
	waits   map[callKey]chan *wire.ControllerResult
	owed    map[callKey]laneKey // handed over and not reported
	gone    chan struct{}
	end     sync.Once // closes gone
}

type callKey struct {
	kind, subject string
	generation    uint64
}

// New returns a dispatcher without streams.
func New() *Dispatcher {
	return &Dispatcher{
		began: time.Now(),
		nodes: map[ids.Node]*nodeStream{},
		lost:  map[ids.Node]time.Time{},
		lanes: map[laneKey]*lane{},
		debts: map[laneKey]debt{},
	}
}

// Lead begins a term: what earlier leaders saw of nodes that are gone does not count.
func (d *Dispatcher) Lead() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began = time.Now()
	clear(d.lost)
}

// Serve holds a node's stream of calls until it ends. Run it as the handler of wire.NodeControllerCalls. A call is
// handed over only while the node makes fewer calls of its plugin than credits says. A result counts while obeyed
// returns nil.
func (d *Dispatcher) Serve(
	node ids.Node, credits Credits, stream *wire.Stream[wire.ControllerCall, wire.ControllerResult],
	obeyed func() error,
) error {
	s := &nodeStream{
		stream:  stream,
		credits: credits,
		slots:   map[slotKey]*slots{},
		waits:   map[callKey]chan *wire.ControllerResult{},
		owed:    map[callKey]laneKey{},
		gone:    make(chan struct{}),
	}
	d.mu.Lock()
	d.nodes[node] = s
	delete(d.lost, node)
	d.mu.Unlock()
	d.changed.Notify()
	defer d.drop(node, s)
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := obeyed(); err != nil {
			return err
		}
		key := callKey{r.Kind, r.Subject, r.Generation}
		d.mu.Lock()
		ch := s.waits[key]
		d.settled(s, key)
		d.mu.Unlock()
		if ch == nil {
			d.changed.Notify() // who waited for it has given up: what waits behind it may go on
		}
		if ch != nil {
			select {
			case ch <- r:
			default: // a second report of the same call: the first one counts
			}
		}
	}
}

// Drop hands no more calls to the stream that a node has now, and counts those under way as lost: another one follows.
func (d *Dispatcher) Drop(node ids.Node) {
	if s := d.streamOf(node); s != nil {
		d.drop(node, s)
	}
}

func (d *Dispatcher) drop(node ids.Node, s *nodeStream) {
	d.mu.Lock()
	if d.nodes[node] == s {
		delete(d.nodes, node)
		d.lost[node] = time.Now()
	}
	for key := range s.owed {
		d.settled(s, key)
	}
	d.mu.Unlock()
	s.end.Do(func() { close(s.gone) })
	d.changed.Notify()
}

// Connected reports whether a call can be handed to a node now.
func (d *Dispatcher) Connected(node ids.Node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node] != nil
}

// Changed is closed when a node's stream of calls opens or ends.
func (d *Dispatcher) Changed() <-chan struct{} { return d.changed.C() }

// Lane waits for the lane of a volume, in which all its controller calls queue. Release it when the call has ended. An
// error means that ctx ended.
func (d *Dispatcher) Lane(ctx context.Context, plugin ids.Plugin, externalID string) (release func(), err error) {
	key := laneKey{plugin, externalID}
	d.mu.Lock()
	l := d.lanes[key]
	if l == nil {
		l = &lane{held: make(chan struct{}, 1)}
		d.lanes[key] = l
	}
	l.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(d.lanes, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

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

	"berth/internal/base/fault"
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
}

// Dispatcher hands controller calls to connected nodes.
type Dispatcher struct {
	changed lifecycle.Signal
	mu      sync.Mutex
	nodes   map[ids.Node]*nodeStream
	lanes   map[laneKey]*lane
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
	stream *wire.Stream[wire.ControllerCall, wire.ControllerResult]
	send   sync.Mutex
	waits  map[callKey]chan *wire.ControllerResult
	gone   chan struct{}
}

type callKey struct {
	kind, subject string
	generation    uint64
}

// New returns a dispatcher without streams.
func New() *Dispatcher {
	return &Dispatcher{nodes: map[ids.Node]*nodeStream{}, lanes: map[laneKey]*lane{}}
}

// Serve holds a node's stream of calls until it ends. Run it as the handler of wire.NodeControllerCalls.
func (d *Dispatcher) Serve(node ids.Node, stream *wire.Stream[wire.ControllerCall, wire.ControllerResult]) error {
	s := &nodeStream{stream: stream, waits: map[callKey]chan *wire.ControllerResult{}, gone: make(chan struct{})}
	d.mu.Lock()
	d.nodes[node] = s
	d.mu.Unlock()
	d.changed.Notify()
	defer func() {
		d.mu.Lock()
		if d.nodes[node] == s {
			delete(d.nodes, node)
		}
		d.mu.Unlock()
		close(s.gone)
		d.changed.Notify()
	}()
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		d.mu.Lock()
		ch := s.waits[callKey{r.Kind, r.Subject, r.Generation}]
		d.mu.Unlock()
		if ch != nil {
			select {
			case ch <- r:
			default: // a second report of the same call: the first one counts
			}
		}
	}
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

// Do has a node make a call and waits for its result. The caller holds the lane and has committed the intent. A node
// whose stream ends in between leaves the end unknown: fault.Timeout. A node that is not connected never got the call:
// fault.Unavailable.
func (d *Dispatcher) Do(ctx context.Context, node ids.Node, call *wire.ControllerCall) (*wire.ControllerResult, error) {
	key := callKey{call.Kind, call.Subject, call.Generation}
	ch := make(chan *wire.ControllerResult, 1)
	d.mu.Lock()
	s := d.nodes[node]
	if s == nil {
		d.mu.Unlock()
		return nil, fault.New(fault.Unavailable, call.Kind, call.Subject, notConnected(node))
	}
	s.waits[key] = ch
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(s.waits, key)
		d.mu.Unlock()
	}()
	s.send.Lock()
	err := s.stream.Send(call)
	s.send.Unlock()
	if err != nil {
		return nil, fault.Wrap(err, fault.Timeout, call.Kind, call.Subject)
	}
	limit := time.NewTimer(call.Timeout + grace)
	defer limit.Stop()
	select {
	case r := <-ch:
		return readable(r), nil
	case <-s.gone:
		return nil, fault.New(fault.Timeout, call.Kind, call.Subject,
			"the node that made the call lost its connection; how the call ended is not known")
	case <-limit.C:
		return nil, fault.New(fault.Timeout, call.Kind, call.Subject, "the node did not say in time how the call ended")
	case <-ctx.Done():
		return nil, fault.Wrap(ctx.Err(), fault.Timeout, call.Kind, call.Subject)
	}
}

// grace is how much longer than the call itself the dispatcher waits for its result.
const grace = 10 * time.Second

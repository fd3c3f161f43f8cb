// Package dispatch owns the way of controller work from the leader to the nodes that run controller instances: one call
// in flight per volume in the whole cluster, made by the node that the caller chose, and its end brought back. It decides
// nothing; the keepers of claims and volumes do.
package dispatch

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

// Dispatcher hands work to connected nodes.
type Dispatcher struct {
	changed lifecycle.Signal
	mu      sync.Mutex
	nodes   map[ids.Node]*session
	lanes   map[string]*lane
}

// lane is the queue of one volume; it lives while somebody holds it or waits.
type lane struct {
	turn  chan struct{}
	users int
}

// session is one node's open stream of work.
type session struct {
	stream *wire.Stream[wire.Work, wire.WorkReport]
	send   sync.Mutex
	waits  map[callKey]chan *wire.WorkReport
	gone   chan struct{}
}

type callKey struct {
	kind, subject string
	generation    uint64
}

// New returns a dispatcher without sessions.
func New() *Dispatcher {
	return &Dispatcher{nodes: map[ids.Node]*session{}, lanes: map[string]*lane{}}
}

// Serve holds a node's stream of work until it ends. Run it as the handler of wire.NodeWork.
func (d *Dispatcher) Serve(node ids.Node, stream *wire.Stream[wire.Work, wire.WorkReport]) error {
	s := &session{stream: stream, waits: map[callKey]chan *wire.WorkReport{}, gone: make(chan struct{})}
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

// Connected reports whether work can be handed to a node now.
func (d *Dispatcher) Connected(node ids.Node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node] != nil
}

// Changed is closed when a node's stream of work opens or ends.
func (d *Dispatcher) Changed() <-chan struct{} { return d.changed.C() }

// Lane takes the volume's lane: all controller verbs of one volume queue here. Release it when the call has ended.
func (d *Dispatcher) Lane(ctx context.Context, name string) (release func(), err error) {
	d.mu.Lock()
	l := d.lanes[name]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		d.lanes[name] = l
	}
	l.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(d.lanes, name)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Do hands work to a node and waits for its end. The caller holds the lane and has committed the intent. A node whose
// stream ends in between leaves the end unknown: fault.Timeout. A node that is not connected never got the work:
// fault.Unavailable.
func (d *Dispatcher) Do(ctx context.Context, node ids.Node, w *wire.Work) (*wire.WorkReport, error) {
	key := callKey{w.Kind, w.Subject, w.Generation}
	ch := make(chan *wire.WorkReport, 1)
	d.mu.Lock()
	s := d.nodes[node]
	if s == nil {
		d.mu.Unlock()
		return nil, fault.New(fault.Unavailable, w.Kind, w.Subject, "node "+ids.Short(node)+", which runs the plugin's controller, is not connected")
	}
	s.waits[key] = ch
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(s.waits, key)
		d.mu.Unlock()
	}()
	s.send.Lock()
	err := s.stream.Send(w)
	s.send.Unlock()
	if err != nil {
		return nil, fault.Wrap(err, fault.Timeout, w.Kind, w.Subject)
	}
	limit := time.NewTimer(w.Timeout + grace)
	defer limit.Stop()
	select {
	case r := <-ch:
		return r, nil
	case <-s.gone:
		return nil, fault.New(fault.Timeout, w.Kind, w.Subject, "the node that made the call lost its connection; how the call ended is not known")
	case <-limit.C:
		return nil, fault.New(fault.Timeout, w.Kind, w.Subject, "the node did not say in time how the call ended")
	case <-ctx.Done():
		return nil, fault.Wrap(ctx.Err(), fault.Timeout, w.Kind, w.Subject)
	}
}

// grace is how much longer than the call itself the dispatcher waits for its report.
const grace = 10 * time.Second

// Failure turns a report's error into a fault, nil when the call was done, and tells whether its end is unknown.
func Failure(r *wire.WorkReport) (uncertain bool, err error) {
	if r.Err == nil {
		return false, nil
	}
	e := r.Err
	return e.Uncertain, &fault.Error{Kind: fault.Kind(e.Kind), Hint: e.Hint, Err: errors.New(stripHint(e.Message, e.Hint))}
}

// stripHint avoids saying the hint twice: a fault's text ends with it in parentheses.
func stripHint(text, hint string) string {
	if tail := " (" + hint + ")"; hint != "" && len(text) > len(tail) && text[len(text)-len(tail):] == tail {
		return text[:len(text)-len(tail)]
	}
	return text
}

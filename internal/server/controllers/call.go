package controllers

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// grace is how much longer than the call itself its end is waited for: first until the call is withdrawn, then until
// that has ended it.
const grace = 30 * time.Second

// Do has a node make a call and waits for its result. The caller holds the lane and has committed the intent. The call
// waits for one of the node's free credits; before it is handed over, a node that is not connected, or refuses to begin
// it, never got it: fault.Unavailable. A node whose stream ends afterwards leaves the end unknown: fault.Timeout. What
// takes longer than its budget is withdrawn, and the lane stays taken until the node says that it has ended.
func (d *Dispatcher) Do(ctx context.Context, node ids.Node, call *wire.ControllerCall) (*wire.ControllerResult, error) {
	s := d.streamOf(node)
	if s == nil {
		return nil, fault.New(fault.Unavailable, call.Kind, call.Subject, notConnected(node))
	}
	end, err := d.begin(ctx, node, s, call)
	if err != nil {
		return nil, err
	}
	defer end()
	results, leave := d.expect(s, call)
	defer leave()
	d.owes(node, s, call)
	if err := s.hand(call); err != nil {
		return nil, fault.Wrap(err, fault.Timeout, call.Kind, call.Subject)
	}
	return s.await(ctx, call, results)
}

func (d *Dispatcher) streamOf(node ids.Node) *nodeStream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node]
}

// expect registers for a call's result.
func (d *Dispatcher) expect(s *nodeStream, call *wire.ControllerCall) (<-chan *wire.ControllerResult, func()) {
	key := callKey{call.Kind, call.Subject, call.Generation}
	ch := make(chan *wire.ControllerResult, 1)
	d.mu.Lock()
	s.waits[key] = ch
	d.mu.Unlock()
	return ch, func() {
		d.mu.Lock()
		delete(s.waits, key)
		d.mu.Unlock()
	}
}

func (s *nodeStream) hand(call *wire.ControllerCall) error {
	s.send.Lock()
	defer s.send.Unlock()
	return s.stream.Send(call)
}

// await waits for the end of a call that was handed over.
func (s *nodeStream) await(
	ctx context.Context, call *wire.ControllerCall, results <-chan *wire.ControllerResult,
) (*wire.ControllerResult, error) {
	unknown := func(text string) (*wire.ControllerResult, error) {
		return nil, fault.New(fault.Timeout, call.Kind, call.Subject, text)
	}
	limit := time.NewTimer(call.Timeout + grace)
	defer limit.Stop()
	withdrawn := false
	for {
		select {
		case r := <-results:
			if r.Unsent {
				return nil, fault.New(fault.Unavailable, call.Kind, call.Subject,
					"the node did not begin the call: it is at the one before")
			}
			return readable(r), nil
		case <-s.gone:
			return unknown("the node that made the call lost its connection; how the call ended is not known")
		case <-ctx.Done():
			return nil, fault.Wrap(ctx.Err(), fault.Timeout, call.Kind, call.Subject)
		case <-limit.C:
			if withdrawn {
				return unknown("the node did not say in time how the call ended")
			}
			withdrawn = true
			cancel := *call
			cancel.Cancel = true
			if err := s.hand(&cancel); err != nil {
				return nil, fault.Wrap(err, fault.Timeout, call.Kind, call.Subject)
			}
			limit.Reset(grace)
		}
	}
}

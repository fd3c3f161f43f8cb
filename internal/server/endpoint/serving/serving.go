// Package serving owns how a method of the servers is answered: by the one that leads, to which the others pass it on,
// or by any of them where the caller takes what is older; and reads as blocking queries. Only the endpoints serve by
// it.
package serving

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Cluster is what every endpoint asks of the server around it.
type Cluster interface {
	// Route says who answers: this server, which leads and whose state is up to date, with nil, or another one.
	// relayed: another server took this one for the leader. Where nobody can answer the error says why.
	Route(ctx context.Context, relayed bool) (wire.Conn, error)
	// Confirm makes sure that this server still leads: what it has was the newest state when it was called.
	Confirm(ctx context.Context) error
	// Contact is how old the state of this server may be, and whether it knows who leads.
	Contact() (age time.Duration, known bool)
	// Term is a context that ends with ctx, or with wire.NotLeading as its cause as soon as this server leads no more.
	Term(ctx context.Context) (context.Context, context.CancelFunc)
	// Heard notes from which server the calls of a node come, empty for this one.
	Heard(node ids.Node, from string)
}

// Base is what every endpoint stands on.
type Base struct {
	Store   *state.Store
	Cluster Cluster
}

// anyServer are reads, which may say that any server may answer them.
type anyServer interface{ AnyServer() bool }

// Unary adds a handler that is asked only on the server that can answer.
func Unary[Req, Resp any](
	b Base, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error),
) {
	_, read := any(new(Req)).(anyServer)
	serve(b, s, m, h, read)
}

// Waiting is Unary for a handler that changes nothing and may wait for long: it ends when this server leads no more,
// and the next leader is asked.
func Waiting[Req, Resp any](
	b Base, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error),
) {
	serve(b, s, m, h, true)
}

// serve adds a handler. All that does not need the types of its request and its answer is answer's, because the program
// has a copy of this for each method.
func serve[Req, Resp any](
	b Base, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error), waits bool,
) {
	m.Serve(s, func(ctx context.Context, req *Req) (resp *Resp, err error) {
		err = b.answer(ctx, &call{
			method: m.Name(),
			req:    req,
			waits:  waits,
			here: func(ctx context.Context, req any) (err error) {
				resp, err = h(ctx, req.(*Req))
				return err
			},
			there: func(ctx context.Context, leader wire.Conn) (err error) {
				resp, err = m.Call(ctx, leader, req)
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// call is one that is to be answered by this server, or by the one that leads.
type call struct {
	method string
	req    any
	waits  bool // for long: it changes nothing, and ends with the term
	here   func(ctx context.Context, req any) error
	there  func(context.Context, wire.Conn) error
}

// answer has a call answered where it can be.
func (b Base) answer(ctx context.Context, c *call) error {
	if r, ok := c.req.(anyServer); ok && r.AnyServer() {
		return b.judged(ctx, c)
	}
	for tries := 1; ; tries++ {
		leader, err := b.route(ctx, c.req)
		switch {
		case err != nil:
			return err
		case leader != nil:
			err = c.there(ctx, leader)
		case c.waits:
			err = b.whileLeading(ctx, c)
		default:
			err = b.judged(ctx, c)
		}
		// What is refused unbegun, because another server leads by now, is passed on again; nothing else is.
		if !wire.IsNotLeading(err) || !again.Sleep(ctx, tries) {
			return err
		}
	}
}

// whileLeading has a handler answer as long as this server leads.
func (b Base) whileLeading(ctx context.Context, c *call) error {
	term, cancel := b.Cluster.Term(ctx)
	defer cancel()
	err := b.judged(term, c)
	if cause := context.Cause(term); wire.IsNotLeading(cause) {
		return cause // whatever was read may not have been the newest
	}
	return err
}

// again paces the search for the leader while servers disagree about it.
var again = retry.Backoff{Min: 20 * time.Millisecond, Max: time.Second}

// Stream adds the handler of a stream behind the same check. One that is refused is not tried again: what came on it is
// gone.
func Stream[Req, In, Out any](
	b Base, s *wire.Server, m wire.StreamMethod[Req, In, Out], h func(*Req, *wire.Stream[Out, In]) error,
) {
	m.Serve(s, func(req *Req, stream *wire.Stream[Out, In]) error {
		leader, err := b.route(stream.Context(), req)
		if err != nil {
			return err
		}
		if leader == nil {
			if _, err := Judge(stream.Context(), b.Store, m.Name(), req); err != nil {
				return err
			}
			return h(req, stream)
		}
		return m.Relay(stream.Context(), leader, req, stream)
	})
}

// Term is Stream for a handler that goes on as long as this server leads: its context ends with the stream, or then.
func Term[Req, In, Out any](
	b Base, s *wire.Server, m wire.StreamMethod[Req, In, Out],
	h func(context.Context, *Req, *wire.Stream[Out, In]) error,
) {
	Stream(b, s, m, func(req *Req, stream *wire.Stream[Out, In]) error {
		term, cancel := b.Cluster.Term(stream.Context())
		defer cancel()
		ended := make(chan error, 1)
		g, _ := lifecycle.NewGroup(term)
		g.Go(m.Name(), lifecycle.Isolated(m.Name(), func() error {
			err := h(term, req, stream)
			if err == nil {
				ended <- nil
			}
			return err
		}, func(err error) { ended <- err }))
		select {
		case err := <-ended:
			return err
		case <-term.Done():
		}
		// A handler that receives does not hear of the end of the term. Its receive ends with the stream, which is
		// after this function has returned: it can't be joined here.
		if cause := context.Cause(term); wire.IsNotLeading(cause) {
			return cause
		}
		return <-ended
	})
}

// route says where a call is served, nil for here, and notes where a node that calls is connected: at the first server
// that passed the call on, or here.
func (b Base) route(ctx context.Context, req any) (wire.Conn, error) {
	relays := wire.Relays(ctx)
	leader, err := b.Cluster.Route(ctx, len(relays) > 0)
	if node, ok := req.(calling); ok && err == nil && leader == nil && b.itself(node) {
		from := ""
		if len(relays) > 0 {
			from = relays[0]
		}
		b.Cluster.Heard(node.Calling(), from)
	}
	return leader, err
}

// calling is a request of a node.
type calling interface {
	Calling() ids.Node
	Proves(hash string) bool
}

// itself reports whether a call is of the node that it names, or of one that is not known yet. Where a node is reached
// is not moved by who has its certificate without its secret.
func (b Base) itself(req calling) bool {
	n := b.Store.Snapshot().Node(nil, req.Calling())
	return n == nil || req.Proves(n.SecretHash)
}

// Own adds the handler of a stream that every server answers by its own state. Whoever may open it may lose the right
// to
// it meanwhile: its handler asks Again.
func Own[Req, In, Out any](
	b Base, s *wire.Server, m wire.StreamMethod[Req, In, Out],
	h func(context.Context, *Req, *wire.Stream[Out, In]) error,
) {
	m.Serve(s, func(req *Req, stream *wire.Stream[Out, In]) error {
		ctx, err := Judge(stream.Context(), b.Store, m.Name(), req)
		if err != nil {
			return err
		}
		return h(ctx, req, stream)
	})
}

// Package serving owns how a method of the servers is answered: behind one check that this server can, and reads as
// blocking queries. Only the endpoints serve by it.
package serving

import (
	"context"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// Cluster is what every endpoint asks of the server around it.
type Cluster interface {
	// Ready waits until this server leads and its state is up to date, or answers why not.
	Ready(ctx context.Context) error
	// Confirm makes sure that this server still leads and has applied all that was committed before.
	Confirm(ctx context.Context) error
	Leading() bool
}

// Base is what every endpoint stands on.
type Base struct {
	Store   *state.Store
	Cluster Cluster
}

// Unary adds a handler that is asked only when this server can answer.
func Unary[Req, Resp any](
	b Base, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error),
) {
	m.Serve(s, func(ctx context.Context, req *Req) (*Resp, error) {
		if err := b.Cluster.Ready(ctx); err != nil {
			return nil, err
		}
		return h(ctx, req)
	})
}

// Stream adds the handler of a stream behind the same check.
func Stream[Req, In, Out any](
	b Base, s *wire.Server, m wire.StreamMethod[Req, In, Out], h func(*Req, *wire.Stream[Out, In]) error,
) {
	m.Serve(s, func(req *Req, stream *wire.Stream[Out, In]) error {
		if err := b.Cluster.Ready(stream.Context()); err != nil {
			return err
		}
		return h(req, stream)
	})
}

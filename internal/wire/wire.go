// Package wire owns the RPC contract between the two halves of Berth and the surfaces above them: typed method
// descriptors over gRPC with a CBOR codec, the messages they carry, and faults that keep their identity across the hop.
// Servers and clients never import each other; they meet here.
package wire

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"berth/internal/base/fault"
)

// Conn is a connection on which calls are made.
type Conn = grpc.ClientConnInterface

// Method is a call with one request and one reply.
type Method[Req, Resp any] struct{ path string }

// Unary describes a method by "Noun.Verb".
func Unary[Req, Resp any](name string) Method[Req, Resp] {
	return Method[Req, Resp]{path: methodPath(name)}
}

// Name is the method's "/berth.Noun/Verb".
func (m Method[Req, Resp]) Name() string { return m.path }

// Call makes the call. Errors are faults with the kind, subject and hint the other side gave them.
func (m Method[Req, Resp]) Call(ctx context.Context, c Conn, req *Req) (*Resp, error) {
	resp := new(Resp)
	if err := c.Invoke(ctx, m.path, req, resp, grpc.CallContentSubtype(codecName)); err != nil {
		return nil, fromStatus(err)
	}
	return resp, nil
}

// Serve registers the handler. Call it before the server serves.
func (m Method[Req, Resp]) Serve(s *Server, h func(context.Context, *Req) (*Resp, error)) {
	s.unary(m.path, func(ctx context.Context, dec func(any) error) (any, error) {
		req := new(Req)
		if err := dec(req); err != nil {
			return nil, err
		}
		if err := s.admitted(ctx, m.path, req); err != nil {
			return nil, err
		}
		var resp *Resp
		err := s.recorded(ctx, m.path, req, func() (err error) {
			resp, err = h(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// StreamMethod is a call that opens with one request and then carries messages both ways.
type StreamMethod[Req, In, Out any] struct{ path string }

// Bidi describes a streaming method: Req opens it, In flows towards the server, Out towards the caller.
func Bidi[Req, In, Out any](name string) StreamMethod[Req, In, Out] {
	return StreamMethod[Req, In, Out]{path: methodPath(name)}
}

// Name is the method's "/berth.Noun/Verb".
func (m StreamMethod[Req, In, Out]) Name() string { return m.path }

// Stream is one side of an open stream: it sends S and receives R. Send and Recv may be used from two goroutines, each
// from one at a time.
type Stream[S, R any] struct {
	raw      rawStream
	canceled func() error // why who opened it ended it; nil on the serving side
	closing  func() error
}

// rawStream is what both sides of a gRPC stream have in common.
type rawStream interface {
	Context() context.Context
	SendMsg(m any) error
	RecvMsg(m any) error
}

// Send sends one message.
func (s *Stream[S, R]) Send(m *S) error { return s.ended(s.raw.SendMsg(m)) }

// Recv receives one message; io.EOF at the regular end.
func (s *Stream[S, R]) Recv() (*R, error) {
	m := new(R)
	if err := s.raw.RecvMsg(m); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, s.ended(err)
	}
	return m, nil
}

// ended is why the stream does not go on. Canceled is what a caller does: a server on the way that is stopped, and the
// connection that it closes, say it too, and for who still listens the other side is gone.
func (s *Stream[S, R]) ended(err error) error {
	err = fromStatus(err)
	if s.canceled == nil || s.canceled() != nil || !fault.Has(err, fault.Canceled) {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Err: errors.New("the other side ended the stream")}
}

// Context of the stream.
func (s *Stream[S, R]) Context() context.Context { return s.raw.Context() }

// CloseSend tells the other side that nothing more will be sent. On the serving side it does nothing: returning from
// the handler ends the stream.
func (s *Stream[S, R]) CloseSend() error {
	if s.closing == nil {
		return nil
	}
	return s.closing()
}

// Open starts the stream. Cancel ctx to end it early; receive until an error to end it well.
func (m StreamMethod[Req, In, Out]) Open(ctx context.Context, c Conn, req *Req) (*Stream[In, Out], error) {
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	cs, err := c.NewStream(ctx, desc, m.path, grpc.CallContentSubtype(codecName))
	if err != nil {
		return nil, fromStatus(err)
	}
	if err := cs.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, fromStatus(err)
	}
	return &Stream[In, Out]{raw: cs, canceled: ctx.Err, closing: cs.CloseSend}, nil
}

// Serve registers the handler; the stream ends when it returns.
func (m StreamMethod[Req, In, Out]) Serve(s *Server, h func(*Req, *Stream[Out, In]) error) {
	s.stream(m.path, func(ss grpc.ServerStream) error {
		req := new(Req)
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		if err := s.admitted(ss.Context(), m.path, req); err != nil {
			return err
		}
		return s.recorded(ss.Context(), m.path, req, func() error { return h(req, &Stream[Out, In]{raw: ss}) })
	})
}

func init() { encoding.RegisterCodec(codec{}) }

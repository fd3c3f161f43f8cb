package wire

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
)

// relayedKey is the metadata of a call that one server passes on to another: which one did, once for each that did.
const relayedKey = "berth-relayed-by"

// opLead is the operation in faults of servers that do not lead.
const opLead = "lead"

// Through is a connection to a server by which another one, named by, passes calls on.
func Through(c Conn, by string) Conn { return through{c, by} }

type through struct {
	Conn
	by string
}

// Invoke implements Conn.
func (t through) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return t.Conn.Invoke(t.mark(ctx), method, args, reply, opts...)
}

// NewStream implements Conn.
func (t through) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return t.Conn.NewStream(t.mark(ctx), desc, method, opts...)
}

func (t through) mark(ctx context.Context) context.Context {
	person, ofPerson := PersonOf(ctx)
	ctx = metadata.NewOutgoingContext(ctx, metadata.MD{relayedKey: append(Relays(ctx), t.by)})
	if ofPerson { // who answers judges it
		ctx = For(ctx, person)
	}
	return ctx
}

// Relays lists the servers that passed on the call that is being served; the first is the one that the caller asked.
// Only a server is believed that it passes something on.
func Relays(ctx context.Context) []string {
	if who, ok := Caller(ctx); !ok || who.Role != trust.Server {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return append([]string(nil), md.Get(relayedKey)...)
}

// NotLeading is the answer of a server that was asked as the leader and is not. What was asked for was not begun.
func NotLeading(server string) error {
	return &fault.Error{ // one error, not two nested: its operation must survive the wire
		Kind:    fault.Unavailable,
		Op:      opLead,
		Subject: "server " + server,
		Err:     errors.New("it does not lead"),
		Hint:    "try again",
	}
}

// IsNotLeading tells whether a call was refused, unbegun, because the server does not lead.
func IsNotLeading(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.Unavailable && f.Op == opLead
}

// Relay carries the messages of a stream between its caller and the one that serves it, until that one ends it.
func (m StreamMethod[Req, In, Out]) Relay(ctx context.Context, to Conn, req *Req, caller *Stream[Out, In]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	far, err := m.Open(ctx, to, req)
	if err != nil {
		return err
	}
	// The pump towards the far end ends with the caller's stream, and that ends when this handler returns: it can't be
	// joined here, so it lives in a group that is told to stop and ends at its next receive.
	g, _ := lifecycle.NewGroup(ctx)
	g.Go("towards the far end", func() error { return pumpIn(caller, far) })
	return pumpOut(far, caller)
}

// pumpIn carries the caller's messages until the caller has no more.
func pumpIn[In, Out any](caller *Stream[Out, In], far *Stream[In, Out]) error {
	for {
		m, err := caller.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return far.CloseSend()
			}
			return nil // the caller is gone; its context ends the other direction
		}
		if far.Send(m) != nil {
			return nil // the far end ended the stream; the other direction tells why
		}
	}
}

// pumpOut carries the far end's messages until it ends the stream, and returns how it ended.
func pumpOut[In, Out any](far *Stream[In, Out], caller *Stream[Out, In]) error {
	for {
		m, err := far.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := caller.Send(m); err != nil {
			return err
		}
	}
}

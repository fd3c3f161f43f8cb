package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
)

// relayedKey is the metadata of a call that one server passes on to another: which one did, once for each that did.
const relayedKey = "berth-relayed-by"

// opLead is the operation in faults of servers that do not lead.
const opLead = "lead"

// Through is a connection to the server to, by which another one, named by, passes calls on.
func Through(c Conn, by, to string) Conn { return through{c, by, to} }

type through struct {
	Conn
	by, to string
}

// Invoke implements Conn.
func (t through) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var reached peer.Peer
	opts = append(slices.Clone(opts), grpc.Peer(&reached))
	err := t.Conn.Invoke(t.mark(ctx), method, args, reply, opts...)
	return t.silent(err, reached.Addr != nil)
}

// silent names the server whose connection broke under a call, in whose place gRPC answers with words of its own. sent:
// the call may have reached it.
func (t through) silent(err error, sent bool) error {
	if status.Code(err) != codes.Unavailable || answered(err) {
		return err
	}
	hint := "nothing was asked of it yet; try again: within seconds another server leads, if a majority runs"
	if sent {
		hint = "if this was to change something, it may have been done or not: look before you ask again; within " +
			"seconds another server leads, if a majority runs"
	}
	return toStatus(&fault.Error{
		Kind:    fault.Unavailable,
		Op:      "ask",
		Subject: "server " + t.to,
		Err:     fmt.Errorf("it does not answer: %s", status.Convert(err).Message()),
		Hint:    hint,
	})
}

// answered tells whether an error is the answer of a server, and not that of gRPC.
func answered(err error) bool { return strings.HasPrefix(status.Convert(err).Message(), faultPrefix) }

// NewStream implements Conn.
func (t through) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := t.Conn.NewStream(t.mark(ctx), desc, method, opts...)
	if err != nil {
		return nil, t.silent(err, false)
	}
	return silentStream{s, t}, nil
}

// silentStream names the server whose connection broke under a stream.
type silentStream struct {
	grpc.ClientStream
	to through
}

// RecvMsg implements grpc.ClientStream.
func (s silentStream) RecvMsg(m any) error { return s.to.silent(s.ClientStream.RecvMsg(m), true) }

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

package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// streaming is a node whose streams say one thing and go on until they are ended.
type streaming struct {
	agent
	group *lifecycle.Group
	ended chan error // by each of its streams, as it ends
}

// streams connects a node to a server, and has it serve the methods that stream.
func streams(t *testing.T, c *servers.Cluster, at *servers.Member) *streaming {
	t.Helper()
	n := &streaming{agent: newAgent(t, c, at), ended: make(chan error, 1)}
	if err := n.registers(t.Context(), n.conn); err != nil {
		t.Fatal(err)
	}
	methods := wire.NewServer(nil)
	serveEndless(n, methods, wire.AllocLogs, wire.StreamFrame{Data: []byte("begun")})
	serveEndless(n, methods, wire.AllocFileRead, wire.StreamFrame{Data: []byte("begun")})
	serveEndless(n, methods, wire.AllocExec, wire.ExecOutput{Stdout: []byte("begun")})
	raw, err := c.Dial(t.Context(), at, tlsport.Reverse, n.cred)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, n.NodeIdentity); err != nil {
		t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	n.group = g
	g.Go("node", func() error { return wire.ServeOne(ctx, methods, raw) })
	t.Cleanup(n.dies)
	time.Sleep(time.Second) // until the server has heard that the node is registered, and looked who serves
	return n
}

// dies ends the node and all that it serves.
func (n *streaming) dies() {
	n.group.Stop()
	_ = n.group.Wait() // its server may be gone, which is an error there
}

func serveEndless[Req, In, Out any](n *streaming, s *wire.Server, m wire.StreamMethod[Req, In, Out], first Out) {
	m.Serve(s, func(_ *Req, out *wire.Stream[Out, In]) error {
		err := out.Send(&first)
		if err == nil {
			<-out.Context().Done()
			err = out.Context().Err()
		}
		n.ended <- err
		return err
	})
}

// opened is a stream as its caller has it.
type opened func() error // receives

func open[Req, In, Out any](
	ctx context.Context, t *testing.T, at *servers.Member, m wire.StreamMethod[Req, In, Out], req *Req,
) opened {
	t.Helper()
	s, err := m.Open(wire.For(ctx, wire.Person{Local: true}), at.Conn, req)
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		_, err := s.Recv()
		return err
	}
}

// endless are the methods that stream from a node.
var endless = map[string]func(context.Context, *testing.T, *servers.Member, wire.AgentRef) opened{
	"logs": func(ctx context.Context, t *testing.T, at *servers.Member, ref wire.AgentRef) opened {
		return open(ctx, t, at, wire.AllocLogs, &wire.AllocLogsRequest{AgentRef: ref})
	},
	"exec": func(ctx context.Context, t *testing.T, at *servers.Member, ref wire.AgentRef) opened {
		return open(ctx, t, at, wire.AllocExec, &wire.AllocExecRequest{AgentRef: ref})
	},
	"a file": func(ctx context.Context, t *testing.T, at *servers.Member, ref wire.AgentRef) opened {
		return open(ctx, t, at, wire.AllocFileRead, &wire.FileReadRequest{AllocPath: wire.AllocPath{AgentRef: ref}})
	},
}

// TestAStreamEndsWithAnyOfThoseItGoesThrough: given a stream from a node, asked for at a server that does not have the
// node and goes by the one that leads, when the caller, one of the servers or the node dies, then the stream ends soon
// at both of its ends; the caller gets an error that says so, and the node works for nobody who does not listen.
func TestAStreamEndsWithAnyOfThoseItGoesThrough(t *testing.T) {
	type parties struct {
		asked, leads, has *servers.Member
		node              *streaming
		hangUp            func()
	}
	for who, die := range map[string]func(parties){
		"the caller":                func(p parties) { p.hangUp() },
		"the server that was asked": func(p parties) { p.asked.Crash() },
		"the server that leads":     func(p parties) { p.leads.Crash() },
		"the server of the node":    func(p parties) { p.has.Crash() },
		"the node":                  func(p parties) { p.node.dies() },
	} {
		for what, begin := range endless {
			t.Run(what+" without "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := servers.Start(t, 3)
					p := parties{leads: c.Leader()}
					for _, m := range c.Members {
						switch {
						case m == p.leads:
						case p.asked == nil:
							p.asked = m
						default:
							p.has = m
						}
					}
					p.node = streams(t, c, p.has)
					ctx, hangUp := context.WithTimeout(t.Context(), time.Hour)
					defer hangUp()
					p.hangUp = hangUp
					receive := begin(ctx, t, p.asked, wire.AgentRef{Node: p.node.Node, Alloc: "a"})
					if err := receive(); err != nil {
						t.Fatalf("the stream does not begin: %v", err)
					}
					began := time.Now()
					die(p)
					err := receive()
					own := who == "the caller" || who == "the server that was asked" // whose connection is the caller's
					known := fault.Has(err, fault.Unavailable) || own && errors.Is(err, context.Canceled)
					if took := time.Since(began); took > time.Minute || !known {
						t.Errorf("after %s the caller hears: %v", took, err)
					}
					select {
					case <-p.node.ended:
					case <-time.After(time.Minute):
						t.Error("the node goes on with it")
					}
				})
			})
		}
	}
}

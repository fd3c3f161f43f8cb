package server_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// agent is a node as the servers see it, connected to one of them.
type agent struct {
	wire.NodeIdentity
	c    *servers.Cluster
	at   *servers.Member
	cred *certificates.Credentials
	conn *grpc.ClientConn
}

// newAgent is a node with a certificate of its own and a connection to a server.
func newAgent(t testing.TB, c *servers.Cluster, at *servers.Member) agent {
	t.Helper()
	a := agent{c: c, at: at, NodeIdentity: wire.NodeIdentity{
		Node:   ids.Node(ids.New()),
		Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
	}}
	a.cred = c.Trust.Node(t, string(a.Node))
	conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
		return c.Dial(ctx, at, tlsport.Calls, a.cred)
	})
	if err != nil {
		t.Fatal(err)
	}
	a.conn = conn
	t.Cleanup(func() { _ = conn.Close() }) // nobody calls any more
	return a
}

// registers registers the node.
func (a agent) registers(ctx context.Context, conn wire.Conn) error {
	return a.registersIn(ctx, conn, "default")
}

func (a agent) registersIn(ctx context.Context, conn wire.Conn, pool string) error {
	_, err := wire.NodeRegister.Call(ctx, conn, &wire.NodeRegisterRequest{
		NodeIdentity: a.NodeIdentity,
		Info: &node.Node{
			ID:         a.Node,
			Name:       "n",
			Datacenter: "dc1",
			NodePool:   pool,
			Attributes: map[string]string{},
			Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
			Resources:  node.Resources{CPUShares: 1e6, CPUCores: 2, MemoryMB: 1e6, DiskMB: 1e6},
		},
	})
	return err
}

// connect registers a node with a server and has it serve its methods on the reversed connection.
func connect(t *testing.T, c *servers.Cluster, m *servers.Member) agent {
	t.Helper()
	a := newAgent(t, c, m)
	if err := a.registers(t.Context(), a.conn); err != nil {
		t.Fatal(err)
	}
	a.serves(t, m, a.NodeIdentity)
	return a
}

// serves has the node serve its methods, under a name, on a connection to a server. Its answers say who it is.
func (a agent) serves(t *testing.T, at *servers.Member, as wire.NodeIdentity) {
	t.Helper()
	methods := wire.NewServer(nil)
	wire.AllocStats.Serve(methods, func(_ context.Context, r *wire.AgentRef) (*wire.AllocStatsReply, error) {
		return nil, fault.New(fault.NotFound, "measure", string(r.Alloc), "this is node "+string(a.Node))
	})
	raw, err := a.c.Dial(t.Context(), at, tlsport.Reverse, a.cred)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, as); err != nil {
		t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("node", func() error { return wire.ServeOne(ctx, methods, raw) })
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Second) // until the server has heard that the node is registered, and looked who serves
}

// allocs opens the node's stream and returns it with the first set.
func (a agent) allocs(t *testing.T) (*wire.Stream[wire.Empty, wire.AllocSet], *wire.AllocSet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	for {
		stream, err := wire.NodeAllocs.Open(ctx, a.conn, &wire.NodeAllocsRequest{NodeIdentity: a.NodeIdentity})
		if err != nil {
			t.Fatal(err)
		}
		set, err := stream.Recv()
		if err == nil {
			return stream, set
		}
		if !fault.Has(err, fault.Unavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Given a node that is connected to a server which does not lead, then its allocs reach it, and what it says is heard;
// when the leader stops, the node hears that its stream has ended, opens it again at the same server, and gets them
// from the next.
func TestANodeWorksWithAnyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		first := c.Leader()
		a := connect(t, c, c.Follower())
		stream, set := a.allocs(t)
		if !set.Full || len(set.Bundles) != 0 {
			t.Fatalf("the first set: %+v", set)
		}
		register(t, c.Follower(), "web")
		set, err := stream.Recv()
		for err == nil && len(set.Bundles) == 0 {
			set, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		placed := set.Bundles[0].Alloc
		_, err = wire.NodeUpdate.Call(t.Context(), a.conn, &wire.NodeUpdateRequest{
			NodeIdentity: a.NodeIdentity,
			Allocs:       []*alloc.Alloc{{ID: placed.ID, ClientStatus: alloc.ClientRunning}},
		})
		if err != nil {
			t.Fatal(err)
		}
		first.Stop()
		for err == nil {
			_, err = stream.Recv()
		}
		if !fault.Has(err, fault.Unavailable) {
			t.Errorf("the stream of the leader that stopped ended with %v", err)
		}
		_, set = a.allocs(t)
		if len(set.Bundles) != 1 || set.Bundles[0].Alloc.ID != placed.ID ||
			set.Bundles[0].Alloc.ClientStatus != alloc.ClientRunning {
			t.Errorf("the next leader's set: %+v", set)
		}
		beat, err := wire.NodeHeartbeat.Call(t.Context(), a.conn,
			&wire.NodeHeartbeatRequest{NodeIdentity: a.NodeIdentity})
		if err != nil || beat.Reregister {
			t.Errorf("a beat is answered with %+v, %v", beat, err)
		}
	})
}

// Given nodes that are connected to each of three servers, then a call for each node reaches it from every server; a
// node that nobody has heard of is named.
func TestACallReachesItsNodeFromEveryServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		if c.Leader() == nil {
			t.Fatal("no server leads")
		}
		for _, at := range c.Members {
			a := connect(t, c, at)
			for _, m := range c.Members {
				_, err := wire.AllocStats.Call(t.Context(), m.Conn, &wire.AgentRef{Node: a.Node, Alloc: "a"})
				if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "this is node "+string(a.Node)) {
					t.Errorf("a node of %s, asked for at %s: %v", at.Name, m.Name, err)
				}
			}
		}
		for _, m := range c.Members {
			_, err := wire.AllocStats.Call(t.Context(), m.Conn, &wire.AgentRef{Node: "nobody", Alloc: "a"})
			if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), `node "nobody"`) {
				t.Errorf("a node that is not there, asked for at %s: %v", m.Name, err)
			}
		}
	})
}

// Given a node with its certificate, then it speaks for itself alone, whatever it says of who passes its calls on; a
// server's certificate speaks for no node, and nobody serves in the name of another.
func TestANodeSpeaksForItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		victim := connect(t, c, c.Follower())
		thief := newAgent(t, c, c.Leader())
		server, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
			return c.Dial(ctx, c.Leader(), tlsport.Calls, c.Trust.Server(t, "s9"))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		passedOn := metadata.AppendToOutgoingContext(t.Context(), "berth-relayed-by", "s2")
		stolen := victim // with its secret, too
		for what, err := range map[string]error{
			"a node for another":                        stolen.registers(t.Context(), thief.conn),
			"a node that says that it passes a call on": stolen.registers(passedOn, thief.conn),
			"a server for a node":                       stolen.registers(t.Context(), server),
			"what only the leader asks": second(wire.AgentVolumeUsage.Call(passedOn, thief.conn,
				&wire.VolumeUsageRequest{Node: victim.Node})),
			"a stream": func() error {
				s, err := wire.NodeAllocs.Open(t.Context(), thief.conn,
					&wire.NodeAllocsRequest{NodeIdentity: victim.NodeIdentity})
				if err != nil {
					return err
				}
				return second(s.Recv())
			}(),
		} {
			if !fault.Has(err, fault.Denied) {
				t.Errorf("%s: %v", what, err)
			}
		}
		thief.serves(t, c.Leader(), victim.NodeIdentity)
		_, err = wire.AllocStats.Call(t.Context(), c.Leader().Conn, &wire.AgentRef{Node: victim.Node, Alloc: "a"})
		if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "this is node "+string(victim.Node)) {
			t.Errorf("a call for the node ends elsewhere: %v", err)
		}
	})
}

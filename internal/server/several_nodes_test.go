package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// agent is a node as the servers see it, connected to one of them.
type agent struct {
	wire.NodeIdentity
	at *servers.Member
}

// connect registers a node with a server and has it serve its methods on the reversed connection.
func connect(t *testing.T, m *servers.Member) agent {
	t.Helper()
	a := agent{at: m, NodeIdentity: wire.NodeIdentity{
		Node:   ids.Node(ids.New()),
		Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
	}}
	_, err := wire.NodeRegister.Call(t.Context(), m.Conn, &wire.NodeRegisterRequest{
		NodeIdentity: a.NodeIdentity,
		Info: &node.Node{
			ID:         a.Node,
			Name:       "n",
			Datacenter: "dc1",
			NodePool:   "default",
			Attributes: map[string]string{},
			Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
			Resources:  node.Resources{CPUShares: 1e6, CPUCores: 2, MemoryMB: 1e6, DiskMB: 1e6},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	methods := wire.NewServer()
	wire.AllocStats.Serve(methods, func(_ context.Context, r *wire.AgentRef) (*wire.AllocStatsReply, error) {
		return nil, fault.New(fault.NotFound, "measure", string(r.Alloc), "this is node "+string(r.Node))
	})
	raw, err := m.Reversed().Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, a.NodeIdentity); err != nil {
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
	time.Sleep(time.Second) // until the server that it is connected to has heard that it is registered
	return a
}

// allocs opens the node's stream and returns it with the first set.
func (a agent) allocs(t *testing.T) (*wire.Stream[wire.Empty, wire.AllocSet], *wire.AllocSet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	for {
		stream, err := wire.NodeAllocs.Open(ctx, a.at.Conn, &wire.NodeAllocsRequest{NodeIdentity: a.NodeIdentity})
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
		a := connect(t, c.Follower())
		stream, set := a.allocs(t)
		if !set.Full || len(set.Bundles) != 0 {
			t.Fatalf("the first set: %+v", set)
		}
		register(t, a.at, "web")
		set, err := stream.Recv()
		for err == nil && len(set.Bundles) == 0 {
			set, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		placed := set.Bundles[0].Alloc
		_, err = wire.NodeUpdate.Call(t.Context(), a.at.Conn, &wire.NodeUpdateRequest{
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
		beat, err := wire.NodeHeartbeat.Call(t.Context(), a.at.Conn,
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
			a := connect(t, at)
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

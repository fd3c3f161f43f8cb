package server_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/server"
	"berth/internal/server/state"
	"berth/internal/testkit/oneserver"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// TestAWrongSecretMovesNoWay: given a node that is reached by a server which does not lead, when somebody who has a
// certificate of its id, and not its secret, calls the leader, then the node is reached as before.
func TestAWrongSecretMovesNoWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		leader := c.Leader()
		victim := connect(t, c, c.Follower())
		conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
			return c.Dial(ctx, leader, tlsport.Calls, victim.cred)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		wrong := victim.NodeIdentity
		wrong.Secret = wire.Secrets{Values: map[string]string{"id": ids.New()}}
		beat := &wire.NodeHeartbeatRequest{NodeIdentity: wrong}
		if _, err := wire.NodeHeartbeat.Call(t.Context(), conn, beat); !fault.Has(err, fault.Denied) {
			t.Errorf("a beat with another secret: %v", err)
		}
		_, err = wire.AllocStats.Call(t.Context(), leader.Conn, &wire.AgentRef{Node: victim.Node, Alloc: "a"})
		if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "this is node "+string(victim.Node)) {
			t.Errorf("a call for the node: %v", err)
		}
	})
}

// TestTheIdOfANodeBesideAServerIsNotJoinedWith: given a node that runs in a server's own agent, then a join token
// certifies its id to nobody, before a person readmits it; another id it does.
func TestTheIdOfANodeBesideAServerIsNotJoinedWith(t *testing.T) {
	s, conn := oneserver.Start(t)
	beside := agent{NodeIdentity: wire.NodeIdentity{
		Node:   ids.Node(ids.New()),
		Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
	}}
	if err := beside.registers(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	admitted, err := wire.TrustAdmit.Call(t.Context(), conn,
		&wire.AdmitRequest{Role: trust.Node, Uses: 3, Good: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	joins := func(id ids.Node) error { return joinsWith(t, s, conn, id, admitted.Token) }
	if err := joins(ids.Node(ids.New())); err != nil {
		t.Errorf("a node of its own: %v", err)
	}
	if err := joins(beside.Node); !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), "has a server") {
		t.Errorf("the id of the node beside the server: %v", err)
	}
	readmitted := func(until time.Time) {
		err := s.Store().Write(s.Store().Snapshot().Stamp(), func(tx *state.Tx) error {
			tx.PutSession(&node.Session{Node: beside.Node, Readmission: &node.Readmission{Expires: until}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	readmitted(time.Now().Add(-time.Second))
	if err := joins(beside.Node); !fault.Has(err, fault.Denied) {
		t.Errorf("the id of the node, whose readmission is over: %v", err)
	}
	readmitted(time.Now().Add(time.Hour))
	if err := joins(beside.Node); err != nil {
		t.Errorf("the id of the node, which is readmitted: %v", err)
	}
}

// joinsWith has a node ask for its first certificate, with a join token.
func joinsWith(t *testing.T, s *server.Server, conn wire.Conn, id ids.Node, token wire.Secrets) error {
	t.Helper()
	key, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := trust.NewRequest(trust.Principal{
		Cluster: s.Store().Snapshot().Meta(nil).ClusterID,
		Role:    trust.Node,
		ID:      string(id),
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = wire.TrustCertify.Call(t.Context(), conn, &wire.CertifyRequest{Request: request, Token: token})
	return err
}

// TestANodeStaysInThePoolOfItsToken: given a join token for nodes of one pool, then who joined with it is a node in
// that pool alone, whatever it says at whichever start; a token without a pool lets a node name its pool. A token is
// made for no pool that does not exist.
func TestANodeStaysInThePoolOfItsToken(t *testing.T) {
	s, conn := oneserver.Start(t)
	if _, err := wire.NodePoolPut.Call(t.Context(), conn,
		&wire.NodePoolPutRequest{Pool: partition.NodePool{Name: "edge"}}); err != nil {
		t.Fatal(err)
	}
	admits := func(pool string) (*wire.AdmitReply, error) {
		return wire.TrustAdmit.Call(t.Context(), conn,
			&wire.AdmitRequest{Role: trust.Node, NodePool: pool, Uses: 1, Good: time.Hour})
	}
	if _, err := admits("egde"); !fault.Has(err, fault.NotFound) {
		t.Errorf("a token for a pool that does not exist: %v", err)
	}
	for _, tt := range []struct {
		token, pool string
		in          bool
	}{
		{"edge", "edge", true},
		{"edge", "", false},
		{"edge", "default", false},
		{"edge", "other", false},
		{"default", "", true},
		{"", "edge", true},
		{"", "", true},
	} {
		token, err := admits(tt.token)
		if err != nil || token.Admission.NodePool != tt.token {
			t.Fatalf("token for %q: %+v, %v", tt.token, token, err)
		}
		a := agent{NodeIdentity: wire.NodeIdentity{
			Node:   ids.Node(ids.New()),
			Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
		}}
		if err := joinsWith(t, s, conn, a.Node, token.Token); err != nil {
			t.Fatal(err)
		}
		list, err := wire.TrustAdmissions.Call(t.Context(), conn, &wire.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if by := list.Joined[token.Admission.ID]; len(by) != 1 || by[0].ID != string(a.Node) || by[0].Joined.IsZero() {
			t.Errorf("token for %q: who came in by it: %+v", tt.token, by)
		}
		switch err := a.registersIn(t.Context(), conn, tt.pool); {
		case tt.in && err != nil:
			t.Errorf("token for %q, in %q: %v", tt.token, tt.pool, err)
		case !tt.in && (!fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), `pool "edge"`)):
			t.Errorf("token for %q, in %q: %v", tt.token, tt.pool, err)
		}
	}
}

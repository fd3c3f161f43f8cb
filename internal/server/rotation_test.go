package server_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/tlsport"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/await"
	"berth/internal/wire"
)

// roots are those of the cluster as a person sees them.
func (m *machine) roots() *wire.RootsReply {
	m.t.Helper()
	out, err := wire.TrustRoots.Call(m.t.Context(), m.conn, &wire.Query{})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// rotates replaces the root of the cluster.
func (m *machine) rotates() {
	m.t.Helper()
	if _, err := wire.TrustRotate.Call(m.t.Context(), m.conn, &wire.RotateRootRequest{By: "ann"}); err != nil {
		m.t.Fatal(err)
	}
}

// finishes has the former root forgotten.
func (m *machine) finishes(force bool) error {
	_, err := wire.TrustFinish.Call(m.t.Context(), m.conn,
		&wire.FinishRootRequest{Force: force, Reason: "r", By: "ann"})
	return err
}

// unaware tells whether it is these nodes which have not shown that they know the present root.
func (m *machine) unaware(nodes ...*comer) bool {
	m.t.Helper()
	got := m.roots().Unaware
	for _, n := range nodes {
		found := false
		for _, u := range got {
			found = found || u.Node == n.Node
		}
		if !found {
			return false
		}
	}
	return len(got) == len(nodes)
}

// TestTheRootIsReplacedUnderway: given a server and nodes, when the root is replaced, then a node that is there learns
// the new one and shows that it keeps it; one that was away is let in with the certificate that it has, and learns it;
// one that joins with a token of before is in. The former root is forgotten only when all of them know the next; one
// that was away until then says that it needs a token, and with one it is in by its key. Over all that the server is
// started anew, at any moment.
func TestTheRootIsReplacedUnderway(t *testing.T) {
	m := begins(t, "s1")
	file := m.token(trust.Node)
	var all []*comer
	for range 3 {
		n := m.node(t.TempDir(), ids.Node(ids.New()), file)
		if err := n.asks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.registers(t); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	there, away := all[0], all[1]
	lost := all[2]
	before := m.roots()
	if len(before.Roots) != 1 || len(before.Unaware) != 0 || m.finishes(false) != nil {
		t.Fatalf("%+v", before)
	}
	asOf := joining.RootsAsOf(m.Store().Snapshot())
	m.rotates()
	if now := m.roots(); len(now.Roots) != 2 || now.Roots[1].Key != before.Roots[0].Key || now.Roots[0].By != "ann" ||
		now.Roots[1].Until.IsZero() || joining.RootsAsOf(m.Store().Snapshot()) <= asOf {
		t.Fatalf("%+v", now)
	}
	m.stop()
	m.start()
	if !m.unaware(all...) {
		t.Errorf("%+v do not know it", m.roots().Unaware)
	}

	if err := there.asks(t.Context()); err != nil { // it is given the new root
		t.Fatal(err)
	}
	if !m.unaware(all...) {
		t.Error("a node counts as knowing the root that has not shown it")
	}
	there = m.node(there.dir, there.Node, "") // it was killed
	if err := there.asks(t.Context()); err != nil || !m.unaware(away, lost) {
		t.Errorf("%v; %+v do not know it", err, m.roots().Unaware)
	}
	if err := there.registers(t); err != nil {
		t.Errorf("one that knows it is not let in: %v", err)
	}

	if err := away.registers(t); err != nil {
		t.Errorf("who shows what the former root has issued is not let in: %v", err)
	}
	joiner := m.node(t.TempDir(), ids.Node(ids.New()), file)
	if err := joiner.asks(t.Context()); err != nil {
		t.Fatalf("with a token of before: %v", err)
	}
	if err := joiner.registers(t); err != nil || !m.unaware(away, lost) {
		t.Errorf("%v; %+v do not know it", err, m.roots().Unaware)
	}
	err := m.finishes(false)
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), string(lost.Node)) {
		t.Errorf("the former root is forgotten: %v", err)
	}
	for range 2 {
		if err := away.asks(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !m.unaware(lost) {
		t.Errorf("%+v do not know it", m.roots().Unaware)
	}
	if _, err := wire.TrustFinish.Call(t.Context(), m.conn, &wire.FinishRootRequest{Force: true}); err == nil {
		t.Error("forced without a reason it is forgotten")
	}
	var held []net.Conn
	for _, protocol := range []string{tlsport.Calls, tlsport.Reverse} {
		c, err := lost.Way(protocol).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if protocol == tlsport.Reverse {
			if err := wire.SendHello(c, lost.NodeIdentity); err != nil {
				t.Fatal(err)
			}
		}
		held = append(held, c)
	}
	if err := m.finishes(true); err != nil {
		t.Fatal(err)
	}
	m.stop()
	m.start()
	if now := m.roots(); len(now.Roots) != 1 || len(now.Unaware) != 0 {
		t.Errorf("%+v", now)
	}
	for what, n := range map[string]*comer{"there": there, "away": away, "joined": joiner} {
		if err := n.asks(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := n.registers(t); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, c := range held {
		closes(t, c) // what the forgotten root had let in
	}
	if lost.entersAt(t, m, tlsport.Reverse) {
		t.Error("what the former root has issued is believed")
	}
	late := m.node(t.TempDir(), ids.Node(ids.New()), file)
	for what, n := range map[string]*comer{"who was away": lost, "with a token of the former root": late} {
		if err := n.asks(t.Context()); err == nil || !strings.Contains(err.Error(), "another root") ||
			(n == lost) == strings.Contains(err.Error(), "the token is older than the cluster's root") ||
			!strings.Contains(err.Error(), "make a token where a server is") {
			t.Errorf("%s: %v", what, err)
		}
	}
	back := m.node(lost.dir, lost.Node, m.token(trust.Node))
	for range 2 {
		if err := back.asks(t.Context()); err != nil {
			t.Fatalf("with a new token: %v", err)
		}
	}
	if err := back.registers(t); err != nil {
		t.Errorf("with a new token: %v", err)
	}
}

// TestATokenOfAnotherClusterMovesNoNode: a node that has joined keeps its cluster, whatever token lies beside it.
func TestATokenOfAnotherClusterMovesNoNode(t *testing.T) {
	m, other := begins(t, "s1"), begins(t, "s2")
	n := m.node(t.TempDir(), ids.Node(ids.New()), m.token(trust.Node))
	if err := n.asks(t.Context()); err != nil {
		t.Fatal(err)
	}
	moved := other.node(n.dir, n.Node, other.token(trust.Node))
	if err := moved.asks(t.Context()); !fault.Has(err, fault.Denied) ||
		!strings.Contains(err.Error(), "empty data_dir") {
		t.Errorf("%v", err)
	}
	if m := other.Store().Snapshot().Member(nil, trust.Node, string(n.Node)); m != nil {
		t.Errorf("the other cluster has %+v", m)
	}
	if err := m.node(n.dir, n.Node, "").asks(t.Context()); err != nil {
		t.Errorf("its own: %v", err)
	}
}

// TestNoKeyOfTheRootIsInASavedState: neither of the present one nor of the one before.
func TestNoKeyOfTheRootIsInASavedState(t *testing.T) {
	m := begins(t, "s1")
	m.roots()
	await.Eventually(t, "the authority", func() bool { return m.Store().Snapshot().Authority(nil) != nil })
	var secrets []string
	key := func() {
		s := m.Store().Snapshot()
		opened, err := m.ring().Open(s, "authority", s.Authority(nil).Sealed)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range opened.Reveal() {
			der, err := base64.StdEncoding.DecodeString(v)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := x509.ParsePKCS8PrivateKey(der); err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, v, string(der), string(der[36:68])) // the scalar of P-256, RFC 5208 and 5915
		}
	}
	key()
	m.rotates()
	key()
	if len(secrets) != 6 || secrets[0] == secrets[3] {
		t.Fatalf("%d secrets", len(secrets))
	}
	saved := m.save()
	for i, secret := range secrets {
		if bytes.Contains(saved, []byte(secret)) {
			t.Errorf("secret %d of a key is in the saved state", i)
		}
	}
}

// TestAServerThatWasOffWhileTheRootWasReplacedComesBack: although the root that it knows is forgotten by all others,
// for the servers know each other by their keys.
func TestAServerThatWasOffWhileTheRootWasReplacedComesBack(t *testing.T) {
	first := begins(t, "s1")
	await.Eventually(t, "the first server to say where it is found", func() bool {
		return first.Store().Snapshot().Member(nil, trust.Server, "s1") != nil
	})
	all := []*machine{first, first.joins("s2"), first.joins("s3")}
	keeps(t, all)
	off := all[2]
	off.stop()
	await.Eventually(t, "the root to be replaced", func() bool {
		_, err := wire.TrustRotate.Call(t.Context(), first.conn, &wire.RotateRootRequest{By: "ann"})
		return err == nil
	})
	n := first.node(t.TempDir(), ids.Node(ids.New()), first.token(trust.Node))
	if err := n.asks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.finishes(false); err != nil {
		t.Fatal(err)
	}
	off.file = ""
	off.begin()
	keeps(t, all)
	for _, m := range all {
		at := m.node(n.dir, n.Node, "")
		await.Eventually(t, "the node to be believed by "+m.name, func() bool { return at.registers(t) == nil })
	}
}

// TestManyNodesThatComeAtOnceAreLetInByTurns: given 500 nodes that join at once, then all get in, none is refused, and
// the log takes in no more of them a second than the bound.
func TestManyNodesThatComeAtOnceAreLetInByTurns(t *testing.T) {
	const many = 500
	m := begins(t, "s1")
	file := m.tokenFor(trust.Node, many)
	begun := time.Now()
	errs := make(chan error, many)
	for i := range many {
		n := m.node(t.TempDir(), ids.Node(ids.New()), file)
		go func() {
			err := n.Join(t.Context(), credentials.Self{ID: string(n.Node)})
			if err != nil {
				err = fmt.Errorf("node %d: %w", i, err)
			}
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(begun)
	members := 0
	for range m.Store().Snapshot().Members(nil, trust.Node) {
		members++
	}
	if most := 100 + 100*(took.Seconds()+1); members != many || float64(members) > most {
		t.Errorf("%d nodes have joined in %s", members, took)
	}
}

// TestAPurgedNodeThatDoesNotKnowTheRootIsNamed: given a node that was away while the root was replaced, and was purged,
// then the former root is not forgotten, and the list and the refusal name it; a person may force it.
func TestAPurgedNodeThatDoesNotKnowTheRootIsNamed(t *testing.T) {
	m := begins(t, "s1")
	n := m.node(t.TempDir(), ids.Node(ids.New()), m.token(trust.Node))
	if err := n.asks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.registers(t); err != nil {
		t.Fatal(err)
	}
	made := m.roots().Roots[0].Created
	m.rotates()
	down := &fsm.NodeStatus{Nodes: []ids.Node{n.Node}, Status: node.StatusDown, Seed: ids.New()}
	if _, _, err := m.Propose(t.Context(), down); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.NodePurge.Call(t.Context(), m.conn, &wire.NodePurgeRequest{Node: n.Node}); err != nil {
		t.Fatal(err)
	}
	if got := m.roots(); len(got.Unaware) != 1 || got.Unaware[0].Node != n.Node || !got.Unaware[0].Forgotten ||
		got.Roots[1].Created.Sub(made).Abs() > time.Minute {
		t.Errorf("%+v; the root was made at %s", got, made)
	}
	if err := m.finishes(false); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), string(n.Node)) ||
		!strings.Contains(err.Error(), "which may come back") {
		t.Errorf("the former root is forgotten: %v", err)
	}
	if err := m.finishes(true); err != nil || len(m.roots().Roots) != 1 {
		t.Errorf("forced: %v", err)
	}
}

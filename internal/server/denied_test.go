package server_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/wire"
)

// closes waits until the other end has closed a connection.
func closes(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection goes on")
			}
			return
		}
	}
}

// TestADeniedNodeIsOut: given a node that is connected over TLS, when a person denies it, then its connections end, it
// gets none and no certificate, neither does its key under another id, with a token; also when the server was started
// again. Another node goes on. When it is allowed, it is in again by its key.
func TestADeniedNodeIsOut(t *testing.T) {
	m := begins(t, "s1")
	file := m.token(trust.Node)
	n, other := m.node(t.TempDir(), ids.Node(ids.New()), file), m.node(t.TempDir(), ids.Node(ids.New()), file)
	for _, n := range []*comer{n, other} {
		if err := n.asks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.registers(t); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Commands()["join"]
	if err := n.asks(t.Context()); err != nil || m.Commands()["join"] != before+1 {
		t.Errorf("%v; a renewal is not asked of the log, which knows who was denied", err)
	}
	var held []net.Conn
	for _, protocol := range []string{tlsport.Calls, tlsport.Reverse} {
		c, err := n.Way(protocol).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if protocol == tlsport.Reverse {
			if err := wire.SendHello(c, n.NodeIdentity); err != nil {
				t.Fatal(err)
			}
		}
		held = append(held, c)
	}
	word := &wire.DenialRequest{Node: n.Node, By: "ann", Reason: "the disk was stolen"}
	for _, bad := range []*wire.DenialRequest{{Node: n.Node, Reason: " "}, {Node: "nobody", Reason: "r"}} {
		if _, err := wire.NodeDeny.Call(t.Context(), m.conn, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	for range 2 { // the answer may be lost
		if _, err := wire.NodeDeny.Call(t.Context(), m.conn, word); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range held {
		closes(t, c)
	}
	out := func(when string) {
		t.Helper()
		if err := n.asks(t.Context()); !isDenied(err) {
			t.Errorf("%s: it gets a certificate: %v", when, err)
		}
		if err := n.registers(t); err == nil {
			t.Errorf("%s: it is connected", when)
		}
		again := m.node(n.dir, ids.Node(ids.New()), file)
		if err := again.asks(t.Context()); !isDenied(err) {
			t.Errorf("%s: its key joins under another id: %v", when, err)
		}
		if err := other.registers(t); err != nil {
			t.Errorf("%s: the other node: %v", when, err)
		}
	}
	out("denied")
	m.stop()
	m.start()
	out("after a restart")
	list, err := wire.NodeDenials.Call(t.Context(), m.conn, &wire.Query{})
	if err != nil || len(list.Members) != 1 || list.Members[0].ID != string(n.Node) ||
		list.Members[0].Denied.Reason != word.Reason || list.Members[0].Denied.Name != "n" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := wire.NodeAllow.Call(t.Context(), m.conn, word); err != nil {
		t.Fatal(err)
	}
	if err := n.asks(t.Context()); err != nil {
		t.Errorf("allowed, it gets no certificate: %v", err)
	}
	if err := n.registers(t); err != nil {
		t.Errorf("allowed, it is not connected: %v", err)
	}
	if _, err := wire.NodeAllow.Call(t.Context(), m.conn, word); !fault.Has(err, fault.NotFound) {
		t.Errorf("allowed twice: %v", err)
	}
}

// TestANodeBesideAServerIsNotDenied: it has no certificate that could be withheld; the answer says what to do.
func TestANodeBesideAServerIsNotDenied(t *testing.T) {
	m := begins(t, "s1")
	a := agent{NodeIdentity: wire.NodeIdentity{
		Node:   ids.Node(ids.New()),
		Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
	}}
	if err := a.registers(t.Context(), m.conn); err != nil {
		t.Fatal(err)
	}
	_, err := wire.NodeDeny.Call(t.Context(), m.conn, &wire.DenialRequest{Node: a.Node, Reason: "r"})
	if !fault.Has(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}

// isDenied reports the refusal of a node because it is denied.
func isDenied(err error) bool {
	return fault.Has(err, fault.Denied) && strings.Contains(err.Error(), "it is denied since ")
}

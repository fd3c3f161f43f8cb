package server_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/server/keyring"
	"berth/internal/testkit/await"
	"berth/internal/wire"
)

// authority opens that of the cluster, with the key of the server that the machine has.
func (m *machine) authority() *trust.Authority {
	m.t.Helper()
	a, err := (&keyring.Authority{Keyring: m.ring(), Store: m.Store()}).Open()
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

func (m *machine) ring() *keyring.Keyring {
	m.t.Helper()
	ring, err := keyring.Open(filepath.Join(m.dir, "server", "keyring"))
	if err != nil {
		m.t.Fatal(err)
	}
	return ring
}

// ages makes the certificate in a directory one that was issued, for the same key, so long ago.
func ages(t *testing.T, a *trust.Authority, dir string, ago time.Duration) {
	t.Helper()
	path := filepath.Join(dir, "credentials.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var leaf struct{ Certificate []byte }
	if err := json.Unmarshal(data, &leaf); err != nil {
		t.Fatal(err)
	}
	now, err := x509.ParseCertificate(leaf.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	p, err := trust.Named(now)
	if err != nil {
		t.Fatal(err)
	}
	file["Certificate"], err = a.Issue(p, now.PublicKey, time.Now().Add(-ago))
	if err == nil {
		data, err = json.Marshal(file)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// joins is another server of the cluster of m.
func (m *machine) joins(name string) *machine {
	m.t.Helper()
	n := &machine{
		t:    m.t,
		name: name,
		dir:  m.t.TempDir(),
		addr: "127.0.0.1:0",
		asks: []string{m.addr},
		file: m.token(trust.Server),
	}
	m.t.Cleanup(n.stop)
	n.begin()
	return n
}

// entersAt tells whether a server lets the node in with the certificate that it has, whatever its date.
func (n *comer) entersAt(t *testing.T, m *machine, protocol string) bool {
	t.Helper()
	raw, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }() // the test is done with it
	c, err := tlsport.Over(t.Context(), raw, protocol, "", n)
	if err != nil {
		return false
	}
	// Who is refused hears so after its own half of the handshake; who is let in is spoken to.
	if protocol == tlsport.Reverse {
		if err := wire.SendHello(c, n.NodeIdentity); err != nil {
			return false
		}
	}
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 1))
	return err == nil
}

// keeps waits until servers keep one log, in which all vote and one leads.
func keeps(t *testing.T, all []*machine) {
	t.Helper()
	await.Eventually(t, "the servers to keep one log", func() bool {
		leads := 0
		for _, m := range all {
			list, err := wire.ServerList.Call(t.Context(), m.conn, &wire.Query{})
			if err != nil {
				return false
			}
			voters := 0
			for _, s := range list.Servers {
				if s.Voter && s.Alive {
					voters++
				}
				if s.Leader && s.Name == m.name {
					leads++
				}
			}
			if voters != len(all) {
				return false
			}
		}
		return leads == 1
	})
}

// TestAClusterThatWasOffForLongStarts: given three servers and a node, whose certificates have all been over for a day
// when they start again, then the servers find each other by their keys and one leads; the node, which is let in
// nowhere before, gets a certificate by its key, and is connected.
func TestAClusterThatWasOffForLongStarts(t *testing.T) {
	first := begins(t, "s1")
	await.Eventually(t, "the first server to say where it is found", func() bool {
		return first.Store().Snapshot().Member(nil, trust.Server, "s1") != nil
	})
	all := []*machine{first, first.joins("s2"), first.joins("s3")}
	keeps(t, all)
	n := first.node(t.TempDir(), ids.Node(ids.New()), first.token(trust.Node))
	if err := n.asks(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := first.authority()
	for _, m := range all {
		m.stop()
	}
	ages(t, a, n.dir, 2*trust.Lifetime)
	for _, m := range all {
		ages(t, a, m.dir, 2*trust.Lifetime)
		m.file = "" // used up long ago
	}
	for _, m := range all {
		m.begin()
	}
	keeps(t, all)
	for _, m := range all {
		back := m.node(n.dir, n.Node, "")
		if back.entersAt(t, m, tlsport.Reverse) {
			t.Errorf("%s lets in who shows a certificate that is over", m.name)
		}
		if err := back.asks(t.Context()); err != nil {
			t.Errorf("by %s it gets no certificate: %v", m.name, err)
		}
		if err := back.registers(t); err != nil {
			t.Errorf("by %s it is not connected: %v", m.name, err)
		}
		ages(t, a, n.dir, 2*trust.Lifetime)
	}
}

// TestAnExpiredCertificateIsGoodForNothing: given a node whose certificate is over, then it is let in nowhere, and gets
// another one by its key; one that shows such a certificate, and of which there is no record, gets none by its key, nor
// under the id of another node.
func TestAnExpiredCertificateIsGoodForNothing(t *testing.T) {
	m := begins(t, "s1")
	file := m.token(trust.Node)
	n, stranger := m.node(t.TempDir(), ids.Node(ids.New()), file), m.node(t.TempDir(), ids.Node(ids.New()), file)
	for _, who := range []*comer{n, stranger} {
		if err := who.asks(t.Context()); err != nil {
			t.Fatal(err)
		}
		ages(t, m.authority(), who.dir, 2*trust.Lifetime)
	}
	strange := ids.Node(ids.New()) // its certificate names another node than the record has
	for what, who := range map[string]*comer{"the node": m.node(n.dir, n.Node, ""),
		"a stranger": m.node(stranger.dir, strange, "")} {
		for _, protocol := range []string{tlsport.Calls, tlsport.Reverse} {
			if who.entersAt(t, m, protocol) {
				t.Errorf("%s is let in for %s", what, protocol)
			}
		}
	}
	for what, id := range map[string]ids.Node{"under an id without a record": strange, "under the node's id": n.Node} {
		err := m.node(stranger.dir, id, "").asks(t.Context())
		if err == nil || id == strange && !strings.Contains(err.Error(), "has not joined this cluster") ||
			id == n.Node && !fault.Has(err, fault.Conflict) {
			t.Errorf("a stranger gets a certificate %s: %v", what, err)
		}
	}
	back := m.node(n.dir, n.Node, "")
	if err := back.asks(t.Context()); err != nil {
		t.Errorf("by its key: %v", err)
	}
	if err := back.registers(t); err != nil {
		t.Errorf("by its key: %v", err)
	}
}

// TestARecoveryKeyRestoresAClusterElsewhere: given a saved state of servers that are lost, then a new cluster refuses
// it without a key, and with another one, and is as it was; with the recovery key it takes it, opens all that is sealed
// in it, also after it was started again, and lets in the nodes that had joined, by their keys.
func TestARecoveryKeyRestoresAClusterElsewhere(t *testing.T) {
	lost := begins(t, "s1")
	n := lost.node(t.TempDir(), ids.Node(ids.New()), lost.token(trust.Node))
	if err := n.asks(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, saved := lost.Store().Snapshot().Meta(nil).ClusterID, lost.save()
	key, err := os.ReadFile(filepath.Join(lost.dir, "server", "keyring", "recovery.key"))
	if err != nil {
		t.Fatal(err)
	}
	lost.stop()

	m := begins(t, "new")
	before := m.Store().Snapshot().Meta(nil).ClusterID
	other, err := os.ReadFile(filepath.Join(m.dir, "server", "keyring", "recovery.key"))
	if err != nil {
		t.Fatal(err)
	}
	for what, wrong := range map[string]string{"none": "", "another cluster's": string(other)} {
		if err := m.restore(saved, wrong); !fault.Has(err, fault.Denied) {
			t.Errorf("key: %s: %v", what, err)
		}
		if now := m.Store().Snapshot().Meta(nil).ClusterID; now != before {
			t.Fatalf("key: %s: it is cluster %s", what, now)
		}
	}
	if err := m.restore(saved, string(key)); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"restored", "after a start"} {
		if now := m.Store().Snapshot().Meta(nil).ClusterID; now != cluster {
			t.Errorf("%s: it is cluster %s", when, now)
		}
		if bad, all := m.ring().Unopened(m.Store().Snapshot()); len(bad) > 0 || all < 3 {
			t.Errorf("%s: of %d it does not open %v", when, all, bad)
		}
		back := m.node(n.dir, n.Node, "")
		await.Eventually(t, "the node to get a certificate", func() bool { return back.asks(t.Context()) == nil })
		if err := back.registers(t); err != nil {
			t.Errorf("%s: the node is not connected: %v", when, err)
		}
		m.stop()
		m.start()
	}
}

// save returns the state of the servers as a file.
func (m *machine) save() []byte {
	m.t.Helper()
	stream, err := wire.StateSave.Open(m.t.Context(), m.conn, &wire.Empty{})
	if err != nil {
		m.t.Fatal(err)
	}
	var out bytes.Buffer
	for {
		chunk, err := stream.Recv()
		if err != nil {
			m.t.Fatal(err)
		}
		if out.Write(chunk.Data); chunk.Last {
			return out.Bytes()
		}
	}
}

// restore replaces the state of the servers by a saved one, with a recovery key; empty: none.
func (m *machine) restore(file []byte, key string) error {
	m.t.Helper()
	stream, err := wire.StateRestore.Open(m.t.Context(), m.conn,
		&wire.RecoveryWord{By: "a test", RecoveryKey: wire.SealRecoveryKey(key)})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := stream.Send(&wire.StateChunk{Data: file, Last: true}); err != nil {
		m.t.Fatal(err)
	}
	_, err = stream.Recv()
	return err
}

package tlsport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/certificates"
)

// port serves calls to everybody, and the log to servers: it says for whom. holding: those who join keep their
// connections.
func port(t *testing.T, c *certificates.Cluster, holding ...bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, c, l, len(holding) > 0)
	return l.Addr().String()
}

// serveOn is port on a listener.
func serveOn(t *testing.T, c *certificates.Cluster, l net.Listener, holds bool) {
	t.Helper()
	p := tlsport.New(l, tlsport.Config{
		Credentials: c.Server(t, "s1"),
		Admits: map[string]func(trust.Peer) error{
			tlsport.Calls: func(trust.Peer) error { return nil },
			tlsport.Raft: func(p trust.Peer) error {
				if p.Role != trust.Server {
					return fault.New(fault.Denied, "admit", p.String(), "the log is the servers'")
				}
				return nil
			},
			tlsport.Join: func(trust.Peer) error { return nil },
		},
		Log: slog.New(slog.DiscardHandler),
	})
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("port", func() error { return p.Run(ctx) })
	for _, protocol := range []string{tlsport.Calls, tlsport.Raft, tlsport.Join} {
		g.Go(protocol, func() error {
			for {
				c, err := p.Listener(protocol).Accept()
				if err != nil {
					return nil // the port has ended
				}
				g.Go("echo", func() error {
					defer c.Close()
					who := c.(*tlsport.Conn).Peer()
					_, _ = io.WriteString(c, protocol+" for "+who.String()) // the other end says what came
					if holds && protocol == tlsport.Join {
						<-ctx.Done()
					}
					return nil
				})
			}
		})
	}
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// hear opens a connection and returns what comes.
func hear(t *testing.T, to, protocol, name string, cred tlsport.Credentials) (string, error) {
	t.Helper()
	raw, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c, err := tlsport.Over(t.Context(), raw, protocol, name, cred)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

// TestAPortKnowsWhoIsThereAndWhatFor plays who dials which protocol with which certificate.
func TestAPortKnowsWhoIsThereAndWhatFor(t *testing.T) {
	c, other := certificates.New(t, ids.New()), certificates.New(t, ids.New())
	node := ids.New()
	to := port(t, c)
	for what, d := range map[string]struct {
		protocol string
		name     string
		cred     tlsport.Credentials
		want     string
		why      string // the connection fails; empty: it does not
	}{
		"a node's calls":         {tlsport.Calls, "", c.Node(t, node), `h2 for node "` + node + `"`, ""},
		"a server's calls":       {tlsport.Calls, "s1", c.Server(t, "s2"), `h2 for server "s2"`, ""},
		"a server's log":         {tlsport.Raft, "s1", c.Server(t, "s2"), `berth-raft/1 for server "s2"`, ""},
		"a node for the log":     {tlsport.Raft, "", c.Node(t, node), "", "bad certificate"},
		"a protocol without use": {tlsport.Reverse, "", c.Node(t, node), "", "no application protocol"},
		"another cluster's node": {tlsport.Calls, "", other.Node(t, node), "", "no root that is trusted"},
		"who believes it and is not believed": {tlsport.Calls, "",
			certificates.Believing(other.Node(t, node), c), "", "bad certificate"},
		"one that looks for another server": {tlsport.Calls, "s2", c.Node(t, node), "", `this is server "s1"`},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := hear(t, to, d.protocol, d.name, d.cred)
			if d.why == "" && (err != nil || got != d.want) {
				t.Errorf("%q, %v, want %q", got, err, d.want)
			}
			if d.why != "" && (err == nil || got != "" || !strings.Contains(err.Error(), d.why)) {
				t.Errorf("%q, %v, want it to fail: %s", got, err, d.why)
			}
		})
	}
}

// TestANodeServesNobodyAsAServer: a node's certificate is none that others may take for a server's.
func TestANodeIsNotTakenForAServer(t *testing.T) {
	c := certificates.New(t, ids.New())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := c.Node(t, ids.New())
	p := tlsport.New(l, tlsport.Config{
		Credentials: node,
		Admits:      map[string]func(trust.Peer) error{tlsport.Calls: func(trust.Peer) error { return nil }},
		Log:         slog.New(slog.DiscardHandler),
	})
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("port", func() error { return p.Run(ctx) })
	defer func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := hear(t, l.Addr().String(), tlsport.Calls, "", c.Node(t, ids.New())); err == nil ||
		!strings.Contains(err.Error(), "this is node") {
		t.Errorf("%v", err)
	}
}

// TestWhoOnlyOpensConnectionsKeepsNobodyOut: a connection on which nothing is said takes no place from the next.
func TestWhoOnlyOpensConnectionsKeepsNobodyOut(t *testing.T) {
	c := certificates.New(t, ids.New())
	to := port(t, c)
	for range 50 {
		silent, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	if got, err := hear(t, to, tlsport.Calls, "", c.Server(t, "s2")); err != nil || got == "" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestWhoSaysNothingKeepsNobodyOut: connections of one address on which nothing is said, and those of who is to join
// and does not, are bounded, so that members get in beside them; and so does who joins from another address.
func TestWhoSaysNothingKeepsNobodyOut(t *testing.T) {
	c := certificates.New(t, ids.New())
	to := port(t, c, true)
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		raw, err := d.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() })
		return raw
	}
	for range 300 {
		dial("127.0.0.2")
	}
	if got, err := hear(t, to, tlsport.Calls, "", c.Server(t, "s2")); err != nil || got == "" {
		t.Errorf("beside 300 silent ones: %q, %v", got, err)
	}
	root := trust.KeyOf(c.Authority.Root)
	joins := func(from string) net.Conn {
		conn, _, err := tlsport.Enter(t.Context(), dial(from), time.Now(), root)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err != nil {
			return nil
		}
		return conn
	}
	var in []net.Conn
	for range 80 {
		if c := joins("127.0.0.3"); c != nil {
			in = append(in, c)
		}
	}
	if len(in) != 64 {
		t.Errorf("%d of 80 that are to join are in", len(in))
	}
	for range 20 {
		if joins("127.0.0.4") == nil {
			t.Fatal("who comes from another address is kept out")
		}
	}
	if err := in[0].SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(in[0]); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the oldest has not given way: %q, %v", text, err)
	}
	if joins("127.0.0.3") != nil {
		t.Error("the address that has the most has one more")
	}
	if got, err := hear(t, to, tlsport.Calls, "", c.Server(t, "s2")); err != nil || got == "" {
		t.Errorf("beside 64 that do not join: %q, %v", got, err)
	}
}

// TestWhoJoinsKnowsTheClusterByItsTokenAlone: and shows nothing; what it reaches is for strangers alone. With the
// token of another cluster, or by the key of what is no root, it sends nothing.
func TestWhoJoinsKnowsTheClusterByItsTokenAlone(t *testing.T) {
	c, other := certificates.New(t, ids.New()), certificates.New(t, ids.New())
	to := port(t, c)
	enter := func(now time.Time, roots ...trust.KeyID) (*tlsport.Conn, *x509.Certificate, error) {
		raw, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		conn, root, err := tlsport.Enter(t.Context(), raw, now, roots...)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return conn, root, err
	}
	ours, theirs := trust.KeyOf(c.Authority.Root), trust.KeyOf(other.Authority.Root)
	conn, root, err := enter(time.Now(), theirs, ours)
	if err != nil || !root.Equal(c.Authority.Root) || conn.Peer().Role != trust.Server {
		t.Fatalf("%v, %v", root, err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != tlsport.Join+" for somebody without a certificate" {
		t.Errorf("the server takes it for %q (%v)", got, err)
	}
	leaf, err := c.Server(t, "s1").Certificate()
	if err != nil {
		t.Fatal(err)
	}
	chain := parse(t, leaf)
	for what, roots := range map[string][]trust.KeyID{
		"another cluster's token": {theirs},
		"the key of a server":     {trust.KeyOf(chain[0])},
		"no key":                  nil,
	} {
		_, _, err := enter(time.Now(), roots...)
		if err == nil || !strings.Contains(err.Error(), "another root") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err = enter(time.Now().Add(2*trust.Lifetime), ours)
	if err == nil || !strings.Contains(err.Error(), "good until") {
		t.Errorf("a server whose certificate is over: %v", err)
	}
	for _, protocols := range [][]string{{tlsport.Calls}, {tlsport.Join, tlsport.Calls},
		{tlsport.Calls, tlsport.Join}} {
		raw, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		bare := tls.Client(raw,
			&tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS13})
		if err := bare.HandshakeContext(t.Context()); err == nil {
			_, err = bare.Read(make([]byte, 1))
			if err == nil {
				t.Errorf("without a certificate %v is served", protocols)
			}
		}
		_ = bare.Close()
	}
}

func parse(t *testing.T, c *tls.Certificate) []*x509.Certificate {
	t.Helper()
	var out []*x509.Certificate
	for _, der := range c.Certificate {
		p, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

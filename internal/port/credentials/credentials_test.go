package credentials

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/await"
	"berth/internal/testkit/certificates"
	"berth/internal/wire"
)

// asked is a request for a certificate as a server got it.
type asked struct {
	trust.Request
	token bool
	knows []trust.KeyID
}

// authority is a server that issues certificates, the first some hours ago.
type authority struct {
	*certificates.Cluster
	addr string

	mu    sync.Mutex
	ago   []time.Duration // of the issue of the next ones
	again []time.Duration // that the next ones are told to wait
	asOf  uint64          // of the roots
	asked []asked
}

func serves(t *testing.T, ago ...time.Duration) *authority {
	t.Helper()
	return servesAs(t, ids.New(), ago...)
}

// servesAs is serves for a cluster of an id.
func servesAs(t *testing.T, id string, ago ...time.Duration) *authority {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{Cluster: certificates.New(t, id), addr: raw.Addr().String(), ago: ago}
	open, methods := wire.NewServer(nil), wire.NewServer(nil)
	wire.TrustCertify.Serve(open, a.certify)
	beat := func(context.Context, *wire.NodeHeartbeatRequest) (*wire.NodeHeartbeatReply, error) {
		return &wire.NodeHeartbeatReply{}, nil
	}
	wire.NodeHeartbeat.Serve(methods, beat)
	anybody := func(trust.Peer) error { return nil }
	port := tlsport.New(raw, tlsport.Config{
		Credentials: a.Server(t, "s1"),
		Admits:      map[string]func(trust.Peer) error{tlsport.Join: anybody, tlsport.Calls: anybody},
		Log:         slog.New(slog.DiscardHandler),
	})
	outer := context.WithoutCancel(t.Context())
	g, ctx := lifecycle.NewGroup(outer)
	ports, portCtx := lifecycle.NewGroup(outer)
	ports.Go("port", func() error { return port.Run(portCtx) })
	g.Go("open", func() error { return open.Run(ctx, port.Listener(tlsport.Join)) })
	g.Go("methods", func() error { return methods.Run(ctx, port.Listener(tlsport.Calls)) })
	t.Cleanup(func() {
		for _, g := range []*lifecycle.Group{g, ports} {
			g.Stop()
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		}
	})
	return a
}

func (a *authority) certify(_ context.Context, req *wire.CertifyRequest) (*wire.CertifyReply, error) {
	r, err := trust.ParseRequest(req.Request)
	if err != nil {
		return nil, err
	}
	_, token, err := req.Token.OpenToken()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, asked{r, token, req.Roots})
	if len(a.again) > 0 {
		again := a.again[0]
		a.again = a.again[1:]
		return &wire.CertifyReply{Again: again}, nil
	}
	now := time.Now()
	at := now
	if len(a.ago) > 0 {
		at, a.ago = now.Add(-a.ago[0]), a.ago[1:]
	}
	der, err := a.Authority.Issue(r.Principal, r.Public, at)
	out := &wire.CertifyReply{Certificate: der, RootsAsOf: a.asOf, Now: now}
	for _, root := range a.Authority.Trusted {
		out.Roots = append(out.Roots, root.Raw)
	}
	return out, err
}

// seen are the requests that came.
func (a *authority) seen() []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]asked(nil), a.asked...)
}

// token is a file with a join token of the cluster.
func (a *authority) token(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	text := trust.NewJoinToken(a.Authority.Root).Reveal() + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runs opens credentials in a directory and runs them until the returned function is called.
func runs(t *testing.T, cfg Config, node ids.Node) (c *Credentials, stop func()) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	c = New(cfg)
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("credentials", func() error { return c.Run(ctx, Self{ID: string(node)}) })
	return c, func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// beats makes a call over the node's way.
func beats(t *testing.T, c *Credentials) error {
	t.Helper()
	conn, err := wire.Connect(c.Way(tlsport.Calls).Dial)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = wire.NodeHeartbeat.Call(t.Context(), conn, &wire.NodeHeartbeatRequest{})
	return err
}

// TestANodeJoinsOnceAndRenewsByItsKey: the first certificate is due at once, and is renewed; so it is after a restart,
// by the key of before and without a token, when it is over. What it has is for nobody else to read.
func TestANodeJoinsOnceAndRenewsByItsKey(t *testing.T) {
	a := serves(t, trust.Lifetime*2/3+time.Hour)
	dir, node := t.TempDir(), ids.Node(ids.New())
	// Nobody is at the first.
	cfg := Config{Role: trust.Node, Dir: dir, Servers: []string{"127.0.0.1:1", a.addr}, TokenFile: a.token(t)}
	c, stop := runs(t, cfg, node)
	await.Eventually(t, "it has joined and renewed", func() bool { return len(a.seen()) == 2 })
	await.Eventually(t, "it is believed", func() bool { return beats(t, c) == nil })
	stop()
	seen := a.seen()
	if !seen[0].token || seen[0].Key != seen[1].Key || seen[0].ID != string(node) ||
		seen[1].Role != trust.Node {
		t.Errorf("%+v", seen)
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	// The machine was off for a week: nothing is left but the key, and no token.
	c.file.Certificate = issued(t, a, c, time.Now().Add(-7*24*time.Hour))
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	cfg.TokenFile = ""
	again, stop := runs(t, cfg, node)
	defer stop()
	await.Eventually(t, "it has renewed", func() bool { return len(a.seen()) == 3 })
	await.Eventually(t, "it is believed again", func() bool { return beats(t, again) == nil })
	if last := a.seen()[2]; last.token || last.Key != seen[0].Key {
		t.Errorf("%+v", last)
	}
}

// issued is a certificate for the node's key of a moment.
func issued(t *testing.T, a *authority, c *Credentials, at time.Time) []byte {
	t.Helper()
	p := trust.Principal{Cluster: a.ID, Role: trust.Node, ID: c.self.ID}
	der, err := a.Authority.Issue(p, c.key.Public(), at)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestATokenOfAnotherClusterIsSentNowhere.
func TestATokenOfAnotherClusterIsSentNowhere(t *testing.T) {
	a, other := serves(t), serves(t)
	c := New(Config{Role: trust.Node, Dir: t.TempDir(), Servers: []string{a.addr}, TokenFile: other.token(t)})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	c.self = Self{ID: ids.New()}
	_, err := c.certify(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another root") || len(a.seen()) > 0 {
		t.Errorf("%v, %d requests came", err, len(a.seen()))
	}
}

// TestNothingIsShownBeforeTheJoin: what needs a certificate waits for it, and says so when it is given up.
func TestNothingIsShownBeforeTheJoin(t *testing.T) {
	c := New(Config{Role: trust.Node, Dir: t.TempDir(), Servers: []string{"127.0.0.1:1"}})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Way(tlsport.Calls).Dial(ctx); !fault.Has(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "has not joined") {
		t.Errorf("%v", err)
	}
	if _, _, err := c.known(); !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), "join-token create") {
		t.Errorf("%v", err)
	}
}

// TestWhatIsDamagedIsNotReplaced: a new key in the place of the node's would never be accepted.
func TestWhatIsDamagedIsNotReplaced(t *testing.T) {
	for what, text := range map[string]string{
		"empty": "", "cut off": `{"Key":"MIGH`, "no key": `{"Key":"AAAA"}`, "nothing": `{}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := New(Config{Role: trust.Node, Dir: dir, Servers: []string{"s"}}).Open()
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("%s: now %q (%v)", what, left, err)
		}
	}
}

// TestAClockThatWasSetBackLetsNothingLiveAgain: dates are judged by the newest time that a server has said.
func TestAClockThatWasSetBackLetsNothingLiveAgain(t *testing.T) {
	a := serves(t)
	c := New(Config{
		Role:      trust.Node,
		Dir:       t.TempDir(),
		Servers:   []string{a.addr},
		TokenFile: a.token(t),
		Log:       slog.New(slog.DiscardHandler),
	})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	c.self = Self{ID: ids.New()}
	if _, err := c.certify(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.file.Newest = time.Now().Add(2 * trust.Lifetime)
	shown, err := a.Server(t, "s1").Certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rules("").Verify([]*x509.Certificate{leaf}); !fault.Has(err, fault.Denied) {
		t.Errorf("%v", err)
	}
}

package credentials

import (
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/await"
	"berth/internal/testkit/certificates"
)

// rotates replaces the root by one that the present one vouches for.
func (a *authority) rotates(t *testing.T) *trust.Authority {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	old, next := a.Authority, certificates.New(t, a.ID).Authority
	next.Trusted = []*x509.Certificate{next.Root, old.Root}
	a.Authority = next
	a.asOf = 7
	return old
}

// keyIDs are those of certificates.
func keyIDs(all ...*x509.Certificate) []trust.KeyID {
	var out []trust.KeyID
	for _, c := range all {
		out = append(out, trust.KeyOf(c))
	}
	return out
}

// TestWhoIsToAskAgainLaterDoes: without a word of it in the log, and until it has its certificate.
func TestWhoIsToAskAgainLaterDoes(t *testing.T) {
	a := serves(t)
	a.again = []time.Duration{time.Millisecond, 50 * time.Millisecond}
	var said strings.Builder
	c := New(Config{
		Role:      trust.Node,
		Dir:       t.TempDir(),
		Servers:   []string{a.addr},
		TokenFile: a.token(t),
		Log:       slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	if err := c.Join(t.Context(), Self{ID: ids.New()}); err != nil {
		t.Fatal(err)
	}
	if len(a.seen()) != 3 || said.Len() > 0 {
		t.Errorf("it has asked %d times, and says %q", len(a.seen()), said.String())
	}
	a.again = []time.Duration{time.Minute}
	if err := c.Ask(t.Context(), c.self); !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("who asks once: %v", err)
	}
}

// TestAReplacedRootIsLearntAndShown: given a node that has joined, when servers say at a heartbeat that the roots have
// changed, then it asks at once, keeps both roots, and asks once more to show that it does; also when it was killed
// between. Of what it knows it asks no more.
func TestAReplacedRootIsLearntAndShown(t *testing.T) {
	a := serves(t)
	dir, node := t.TempDir(), ids.Node(ids.New())
	cfg := Config{Role: trust.Node, Dir: dir, Servers: []string{a.addr}, TokenFile: a.token(t)}
	c, stop := runs(t, cfg, node)
	await.Eventually(t, "it has joined", c.Joined)
	if err := c.Heard(nil, 0); err != nil { // servers of an older version do not say
		t.Fatal(err)
	}
	old := a.rotates(t)
	others := []trust.ServerAt{{Name: "s9", Address: "10.0.0.9:4647"}}
	if err := c.Heard(others, 7); err != nil || len(c.Servers()) != 1 {
		t.Fatalf("%v, %v", c.Servers(), err)
	}
	await.Eventually(t, "it has learned and shown the root", func() bool { return len(a.seen()) == 3 })
	both := keyIDs(a.Authority.Root, old.Root)
	seen := a.seen()
	if !slices.Equal(seen[1].knows, keyIDs(old.Root)) || !slices.Equal(seen[2].knows, both) {
		t.Errorf("it shows %v, then %v", seen[1].knows, seen[2].knows)
	}
	await.Eventually(t, "it to be content", func() bool { return c.due() > 0 })
	if err := c.Heard(nil, 7); err != nil || c.due() <= 0 || len(c.Servers()) == 0 {
		t.Errorf("what it knows makes it ask, or forget %v: %v", c.Servers(), err)
	}
	// What was heard of a state that is lost, for one with a lower index took its place, is no reason to ask for ever.
	if err := c.Heard(nil, 99); err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "it to have asked once more, and to be content", func() bool {
		return len(a.seen()) >= 4 && c.due() > 0
	})
	stop()

	again := opened(t, dir)
	if !slices.Equal(keyIDs(again.Roots()...), both) || again.due() <= 0 {
		t.Errorf("its next start knows %v, and asks in %s", keyIDs(again.Roots()...), again.due())
	}
	again.file.Untold = true // it was killed before it could show it
	if err := again.save(); err != nil {
		t.Fatal(err)
	}
	if killed := opened(t, dir); killed.due() > 0 {
		t.Errorf("killed before it has shown the root, it asks in %s", killed.due())
	}
}

// TestACertificateThatIsOverIsRenewedWhereItIsNeeded: the timers of a machine that was suspended stood still.
func TestACertificateThatIsOverIsRenewedWhereItIsNeeded(t *testing.T) {
	a := serves(t)
	cfg := Config{Role: trust.Node, Dir: t.TempDir(), Servers: []string{a.addr}, TokenFile: a.token(t)}
	c, stop := runs(t, cfg, ids.Node(ids.New()))
	defer stop()
	await.Eventually(t, "it has joined", c.Joined)
	await.Eventually(t, "it to sleep", func() bool { return c.due() > 0 })
	over, err := x509.ParseCertificate(issued(t, a, c, time.Now().Add(-7*24*time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.leaf = over
	c.mu.Unlock()
	if err := beats(t, c); err != nil {
		t.Errorf("%v", err)
	}
	if usable, why := c.usable(); !usable || len(a.seen()) != 2 {
		t.Errorf("%v; it has asked %d times", why, len(a.seen()))
	}
}

// TestATokenVouchesForARootThatReplacedThoseOfBefore: a node that was away until they were forgotten says what it
// needs, with a token it is in by its key. A token of another cluster moves it nowhere.
func TestATokenVouchesForARootThatReplacedThoseOfBefore(t *testing.T) {
	before, other := serves(t), serves(t)
	after := servesAs(t, before.ID) // with another root
	dir, self := t.TempDir(), Self{ID: ids.New()}
	join := func(a *authority, token string) (*Credentials, error) {
		c := New(Config{
			Role:      trust.Node,
			Dir:       dir,
			Servers:   []string{a.addr},
			TokenFile: token,
			Log:       slog.New(slog.DiscardHandler),
		})
		if err := c.Open(); err != nil {
			t.Fatal(err)
		}
		return c, c.Ask(t.Context(), self)
	}
	first, err := join(before, before.token(t))
	if err != nil {
		t.Fatal(err)
	}
	key, err := first.KeyID()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join(after, ""); !tlsport.IsOtherRoot(err) || !strings.Contains(err.Error(), "join_token_file") ||
		!strings.Contains(err.Error(), "join-token create") || len(after.seen()) > 0 {
		t.Errorf("without a token: %v", err)
	}
	if _, err := join(other, other.token(t)); !fault.Has(err, fault.Denied) || len(other.seen()) > 0 ||
		!strings.Contains(err.Error(), "empty data_dir") {
		t.Errorf("with a token of another cluster: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(bad, []byte("berth-join-x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := join(before, bad); err != nil {
		t.Errorf("known by its root, with a file that is no token: %v", err)
	}
	c, err := join(after, after.token(t))
	if err != nil {
		t.Fatal(err)
	}
	if seen := after.seen(); len(seen) != 1 || seen[0].Key != key || !seen[0].token {
		t.Errorf("%+v", seen)
	}
	if err := beats(t, c); err != nil {
		t.Error(err)
	}
}

// TestACertificateIsUsedUntilTheNextIsStored: given a node whose certificate is renewed, when the new one cannot be
// stored, then the node says so and shows the one that it has, which is good; once it can be stored, it shows the new
// one, and so does its next start.
func TestACertificateIsUsedUntilTheNextIsStored(t *testing.T) {
	a := serves(t)
	dir := t.TempDir()
	c := New(Config{
		Role:      trust.Node,
		Dir:       dir,
		Servers:   []string{a.addr},
		TokenFile: a.token(t),
		Log:       slog.New(slog.DiscardHandler),
	})
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	self := Self{ID: ids.New()}
	shown := func(c *Credentials) string {
		t.Helper()
		cert, err := c.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		return string(cert.Certificate[0])
	}
	if err := c.Ask(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	old := shown(c)
	kept := c.path + ".kept"
	if err := os.Rename(c.path, kept); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(t.Context(), self); err == nil || !strings.Contains(err.Error(), c.path) {
		t.Errorf("a certificate that could not be stored: %v", err)
	}
	if shown(c) != old {
		t.Error("it shows a certificate that is not stored")
	}
	if err := beats(t, c); err != nil {
		t.Errorf("with the one that it has: %v", err)
	}
	if err := os.RemoveAll(c.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, c.path); err != nil {
		t.Fatal(err)
	}
	if shown(opened(t, dir)) != old {
		t.Error("a start before the new one is stored shows another than the old one")
	}
	if err := c.Ask(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	if now := shown(c); now == old || now != shown(opened(t, dir)) {
		t.Error("the new one is not shown, or not stored")
	}
}

package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	home  = ids.New()
	node  = Principal{home, Node, ids.New()}
	one   = Principal{home, Server, "s1.global"}
)

func authority(t *testing.T, cluster string) *Authority {
	t.Helper()
	k := key(t)
	root, err := NewRoot(cluster, k, start)
	if err != nil {
		t.Fatal(err)
	}
	a, err := OpenAuthority(root, k)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issued(t *testing.T, a *Authority, p Principal) *x509.Certificate {
	t.Helper()
	der, err := a.Issue(p, key(t).Public(), start)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, der)
}

func parsed(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forged is a certificate that the authority's key signs without the authority's rules.
func forged(t *testing.T, a *Authority, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		URIs:         []*url.URL{node.URI()},
		NotBefore:    start,
		NotAfter:     start.Add(Lifetime),
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, a.Root, key(t).Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, der)
}

// TestWhoIsBelieved plays who presents what to whom, and when.
func TestWhoIsBelieved(t *testing.T) {
	a, twin := authority(t, home), authority(t, home)
	other, next := authority(t, ids.New()), authority(t, home)
	stranger := Principal{ClusterOf(other.Root), Node, node.ID}
	vouched, err := a.CrossSign(next.Root, start)
	if err != nil {
		t.Fatal(err)
	}
	server, member := issued(t, a, one), issued(t, a, node)
	own := key(t)
	der, err := a.Issue(node, own.Public(), start)
	if err != nil {
		t.Fatal(err)
	}
	issuing := &Authority{Root: parsed(t, der), key: own}
	late := start.Add(Lifetime + time.Second)
	year := start.Add(365 * 24 * time.Hour)
	known := map[string]KeyID{one.ID: KeyOf(server)}
	roots := []*x509.Certificate{a.Root}
	for what, c := range map[string]struct {
		chain []*x509.Certificate
		rules Rules
		want  Peer
		why   string // of the refusal; empty: there is none
	}{
		"a node":            {chain: []*x509.Certificate{member}, want: Peer{node, KeyOf(member), false, member}},
		"a server":          {chain: []*x509.Certificate{server}, want: Peer{one, KeyOf(server), false, server}},
		"nothing":           {why: "presents no certificate"},
		"of another root":   {chain: []*x509.Certificate{issued(t, twin, node)}, why: "no root that is trusted"},
		"another cluster's": {chain: []*x509.Certificate{issued(t, other, stranger)}, why: "no root that is trusted"},
		"another cluster's root, which is trusted, for this cluster": {
			chain: []*x509.Certificate{forged(t, other, func(*x509.Certificate) {})},
			rules: Rules{Roots: []*x509.Certificate{a.Root, other.Root}},
			why:   "no root that is trusted",
		},
		"brings its own root": {chain: []*x509.Certificate{issued(t, twin, node), twin.Root},
			why: "no root that is trusted"},
		"of the next root": {chain: []*x509.Certificate{issued(t, next, node)}, why: "no root that is trusted"},
		"the root itself":  {chain: []*x509.Certificate{a.Root}, why: "no principal"},
		"one that issues": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = true, true
		})}, why: "issues others"},
		"a node that issues": {chain: []*x509.Certificate{
			forged(t, issuing, func(*x509.Certificate) {}), issuing.Root,
		}, why: "no root that is trusted"},
		"two names": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.URIs = append(c.URIs, one.URI())
		})}, why: "names nobody, or several"},
		"an address": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.EmailAddresses = []string{"a@b"}
		})}, why: "names nobody, or several"},
		"a role that there is not": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.URIs[0].Path = "/root/" + node.ID
		})}, why: "no such role"},
		"a name with a way in it": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.URIs[0].Path = "/server/../x"
		})}, why: "letters"},
		"an id with a query": {chain: []*x509.Certificate{forged(t, a, func(c *x509.Certificate) {
			c.URIs[0].RawQuery = "role=server"
		})}, why: "no principal"},

		"over": {chain: []*x509.Certificate{member}, rules: Rules{Now: late}, why: "good until"},
		"not yet": {chain: []*x509.Certificate{member}, rules: Rules{Now: start.Add(-time.Hour)},
			why: "one of the clocks"},
		"a clock that is a little late": {chain: []*x509.Certificate{member},
			rules: Rules{Now: start.Add(-time.Minute)}, want: Peer{node, KeyOf(member), false, member}},
		"over, to be renewed": {chain: []*x509.Certificate{member}, rules: Rules{Now: year, Expired: true},
			want: Peer{node, KeyOf(member), true, member}},
		"not yet, to be renewed": {chain: []*x509.Certificate{member},
			rules: Rules{Now: start.Add(-time.Hour), Expired: true}, why: "one of the clocks"},
		"a known server, a year later": {chain: []*x509.Certificate{server}, rules: Rules{Now: year, Known: known},
			want: Peer{one, KeyOf(server), false, server}},
		"a known server, of a root that was forgotten": {chain: []*x509.Certificate{issued(t, twin, one)},
			rules: Rules{Known: map[string]KeyID{}}, why: "no root that is trusted"},
		"a known server with another key, a year later": {chain: []*x509.Certificate{issued(t, a, one)},
			rules: Rules{Now: year, Known: known}, why: "good until"},
		"a server that is not known, a year later": {chain: []*x509.Certificate{server},
			rules: Rules{Now: year, Known: map[string]KeyID{}}, why: "good until"},
		"a node with a known server's name, a year later": {chain: []*x509.Certificate{member},
			rules: Rules{Now: year, Known: map[string]KeyID{node.ID: KeyOf(member)}}, why: "good until"},

		"denied": {chain: []*x509.Certificate{member}, rules: Rules{Denied: hasKey(KeyOf(member))},
			why: "denied"},
		"denied, a known server": {chain: []*x509.Certificate{server},
			rules: Rules{Now: year, Known: known, Denied: hasKey(KeyOf(server))}, why: "denied"},
	} {
		t.Run(what, func(t *testing.T) {
			if c.rules.Now.IsZero() {
				c.rules.Now = start.Add(time.Hour)
			}
			if c.rules.Roots == nil {
				c.rules.Roots = roots
			}
			got, err := c.rules.Verify(c.chain)
			switch {
			case c.why == "" && (err != nil || got != c.want):
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			case c.why != "" && (!fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), c.why)):
				t.Errorf("%+v, %v, want it refused: %s", got, err, c.why)
			}
		})
	}
	t.Run("of the next root, which this one vouches for", func(t *testing.T) {
		leaf := issued(t, next, node)
		got, err := Rules{Roots: roots, Now: start}.Verify([]*x509.Certificate{leaf, parsed(t, vouched)})
		if err != nil || got.Principal != node {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnAuthorityIssuesForItsClusterAlone(t *testing.T) {
	a, other := authority(t, home), authority(t, ids.New())
	for what, p := range map[string]Principal{
		"another cluster":      {ids.New(), Node, node.ID},
		"no cluster":           {"", Node, node.ID},
		"no role":              {home, "", node.ID},
		"a person":             {home, "person", "ann"},
		"a node without an id": {home, Node, "n1"},
		"a server's way":       {home, Server, ".."},
		"a server's path":      {home, Server, "a/b"},
		"no name":              {home, Server, ""},
	} {
		if _, err := a.Issue(p, key(t).Public(), start); err == nil {
			t.Errorf("%s: it issues", what)
		}
	}
	if _, err := a.CrossSign(other.Root, start); !fault.Has(err, fault.Denied) {
		t.Errorf("it vouches for another cluster's root: %v", err)
	}
	if _, err := a.CrossSign(issued(t, a, one), start); !fault.Has(err, fault.Denied) {
		t.Errorf("it vouches for a server: %v", err)
	}
	if _, err := OpenAuthority(a.Root.Raw, key(t)); !fault.Has(err, fault.Invalid) {
		t.Errorf("another key opens it: %v", err)
	}
	if again, err := OpenAuthority(a.Root.Raw, a.key); err != nil || KeyOf(again.Root) != KeyOf(a.Root) {
		t.Errorf("its own does not: %v", err)
	}
}

// TestATokenLetsInWhomItIsFor: as often as it says, until it is over; whoever changes a letter has none.
func TestATokenLetsInWhomItIsFor(t *testing.T) {
	a := authority(t, home)
	token := NewJoinToken(a.Root)
	if token.CA != KeyOf(a.Root) {
		t.Error("it does not name the cluster's root")
	}
	read, err := ParseJoinToken("  " + token.Reveal() + "\n")
	if err != nil || read.Reveal() != token.Reveal() {
		t.Fatalf("%v, %v", read, err)
	}
	if strings.Contains(err2text(ParseJoinToken(token.Reveal()[:60])), token.Secret.Reveal()) {
		t.Error("the error repeats the token")
	}
	for _, bad := range []string{"", "x", tokenPrefix, token.Reveal() + "a", token.Reveal()[1:], token.Reveal() + "-a",
		strings.ToUpper(token.Reveal())} {
		if _, err := ParseJoinToken(bad); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q is read: %v", bad, err)
		}
	}
	known := func(change func(*Admission)) *Admission {
		a := &Admission{
			ID:      token.ID,
			Hash:    token.Hash(),
			Role:    Node,
			Uses:    1,
			Expires: start.Add(time.Hour),
		}
		change(a)
		return a
	}
	stranger := NewJoinToken(a.Root)
	stranger.ID = token.ID
	as := func(*Admission) {}
	for what, c := range map[string]struct {
		known *Admission
		token JoinToken
		role  Role
		why   string // of the refusal; empty: there is none
	}{
		"a node":         {known(as), token, Node, ""},
		"a server by it": {known(as), token, Server, "for a node"},
		"too late":       {known(func(a *Admission) { a.Expires = start.Add(-1) }), token, Node, "good until"},
		"used":           {known(func(a *Admission) { a.Uses = 0 }), token, Node, "been used"},
		"unknown":        {nil, token, Node, "not known"},
		"guessed":        {known(as), stranger, Node, "not known"},
	} {
		err := c.known.Admits(c.token.ID, c.token.Hash(), c.role, start)
		if c.why == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if c.why != "" && (!fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", what, err, c.why)
		}
	}
}

func hasKey(k KeyID) func(Peer) bool { return func(p Peer) bool { return p.Key == k } }

func err2text[T any](_ T, err error) string { return err.Error() }

// TestARequestIsJudgedBeforeItCosts: what its sender chose to be large or slow is refused by its looks.
func TestARequestIsJudgedBeforeItCosts(t *testing.T) {
	good, err := NewRequest(node, key(t))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ParseRequest(good); err != nil || r.Principal != node {
		t.Errorf("%+v, %v", r, err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := func(k crypto.Signer) []byte {
		der, err := NewRequest(node, k)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	for why, der := range map[string][]byte{
		"bytes; the bound":                 append(bytes.Clone(good), make([]byte, maxRequest)...),
		"none of ECDSA on the curve":       of(long),
		"none of ECDSA on the curve P-256": of(other),
		"not signed with the key":          forged,
	} {
		if _, err := ParseRequest(der); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

// TestAServerIsKnownByItsKeyWhicheverRootHasIssued: a server that was off while the root was replaced, and forgotten;
// not under the name of another one, of another cluster, nor a node.
func TestAServerIsKnownByItsKeyWhicheverRootHasIssued(t *testing.T) {
	a, next := authority(t, home), authority(t, home)
	other := authority(t, ids.New())
	server, member := issued(t, a, one), issued(t, a, node)
	foreign := issued(t, other, Principal{ClusterOf(other.Root), Server, one.ID})
	for what, c := range map[string]struct {
		shown *x509.Certificate
		known map[string]KeyID
		want  bool
	}{
		"by its key":         {server, map[string]KeyID{one.ID: KeyOf(server)}, true},
		"another key":        {issued(t, a, one), map[string]KeyID{one.ID: KeyOf(server)}, false},
		"another name":       {server, map[string]KeyID{"s2": KeyOf(server)}, false},
		"nobody is known":    {server, nil, false},
		"a node":             {member, map[string]KeyID{node.ID: KeyOf(member)}, false},
		"of another cluster": {foreign, map[string]KeyID{one.ID: KeyOf(foreign)}, false},
		"one that issues": {forged(t, a, func(c *x509.Certificate) {
			c.URIs = []*url.URL{one.URI()}
			c.IsCA, c.BasicConstraintsValid = true, true
		}), nil, false},
	} {
		if what == "one that issues" {
			c.known = map[string]KeyID{one.ID: KeyOf(c.shown)}
		}
		r := Rules{Roots: []*x509.Certificate{next.Root}, Now: start, Known: c.known}
		if _, err := r.Verify([]*x509.Certificate{c.shown}); (err == nil) != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestACertificateIsRenewedAtTwoThirds: of its life, whatever that is; the skew of clocks is no part of it.
func TestACertificateIsRenewedAtTwoThirds(t *testing.T) {
	a := authority(t, home)
	for _, life := range []time.Duration{MinLifetime, time.Minute, Lifetime, MaxLifetime} {
		a.Lifetime = life
		c := issued(t, a, node)
		if got := c.NotAfter.Sub(start); got != life {
			t.Errorf("it is good for %s, and should be for %s", got, life)
		}
		for spread, want := range map[float64]time.Duration{0: life * 2 / 3, 1: life * 7 / 12} {
			if got := RenewAt(c, spread).Sub(start); got.Round(time.Second/10) != want.Round(time.Second/10) {
				t.Errorf("one of %s is renewed after %s, and should be after %s", life, got, want)
			}
		}
	}
	a.Lifetime = 0
	if c := issued(t, a, node); c.NotAfter.Sub(start) != Lifetime {
		t.Errorf("where nothing is said it is good for %s", c.NotAfter.Sub(start))
	}
}

// TestWhatIsTrustedIsPresented: who knows the former root alone believes, by what goes with a certificate.
func TestWhatIsTrustedIsPresented(t *testing.T) {
	old, next := authority(t, home), authority(t, home)
	cross, err := old.CrossSign(next.Root, start)
	if err != nil {
		t.Fatal(err)
	}
	roots, chain, err := Trusted(next.Root.Raw, []Former{{Root: old.Root.Raw, Cross: cross}})
	if err != nil || len(roots) != 2 || len(chain) != 3 || !roots[0].Equal(next.Root) {
		t.Fatalf("%d roots, %d beside: %v", len(roots), len(chain), err)
	}
	shown := append([]*x509.Certificate{issued(t, next, one)}, chain...)
	for what, by := range map[string][]*x509.Certificate{"the former": {old.Root}, "the present": {next.Root}} {
		if _, err := (Rules{Roots: by, Now: start}).Verify(shown); err != nil {
			t.Errorf("by %s root: %v", what, err)
		}
	}
	if _, err := (Rules{Roots: []*x509.Certificate{authority(t, home).Root}, Now: start}).Verify(shown); err == nil {
		t.Error("by a third root it is believed")
	}
	if roots, chain, err = Trusted(next.Root.Raw, []Former{{Root: old.Root.Raw}}); err != nil || len(roots) != 2 ||
		len(chain) != 1 {
		t.Errorf("where the former root does not vouch: %d roots, %d beside: %v", len(roots), len(chain), err)
	}
}

// Package certificates owns what tests show each other over TLS: a cluster with its authority, and the credentials of
// its servers and nodes. Only tests import it.
package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"berth/internal/model/trust"
)

// Cluster is one with an authority of its own.
type Cluster struct {
	ID        string
	Authority *trust.Authority
}

// New makes a cluster.
func New(t testing.TB, id string) *Cluster {
	t.Helper()
	key, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.NewRoot(id, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := trust.OpenAuthority(root, key)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{ID: id, Authority: a}
}

// Credentials are those of one server or node.
type Credentials struct {
	shown *tls.Certificate
	roots []*x509.Certificate
}

// Server makes those of a server.
func (c *Cluster) Server(t testing.TB, name string) *Credentials {
	t.Helper()
	return c.of(t, trust.Principal{Cluster: c.ID, Role: trust.Server, ID: name})
}

// Node makes those of a node.
func (c *Cluster) Node(t testing.TB, id string) *Credentials {
	t.Helper()
	return c.of(t, trust.Principal{Cluster: c.ID, Role: trust.Node, ID: id})
}

func (c *Cluster) of(t testing.TB, p trust.Principal) *Credentials {
	t.Helper()
	key, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := c.Authority.Issue(p, key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &Credentials{
		shown: &tls.Certificate{Certificate: [][]byte{der, c.Authority.Root.Raw}, PrivateKey: key},
		roots: []*x509.Certificate{c.Authority.Root},
	}
}

// Believing are credentials that show the same and believe another cluster.
func Believing(shown *Credentials, in *Cluster) *Credentials {
	return &Credentials{shown: shown.shown, roots: []*x509.Certificate{in.Authority.Root}}
}

// Certificate implements tlsport.Credentials.
func (c *Credentials) Certificate() (*tls.Certificate, error) { return c.shown, nil }

// Rules implements tlsport.Credentials.
func (c *Credentials) Rules(string) trust.Rules { return trust.Rules{Roots: c.roots, Now: time.Now()} }

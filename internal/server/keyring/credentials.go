package keyring

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
)

// Credentials are what a server shows to nodes and to other servers. Having the cluster's authority it issues its own
// certificate, whenever that is due: so one that was off for longer than certificates live comes up again. The key
// lives as long as the process, and is on no disk.
type Credentials struct {
	Name      string
	Authority *Authority

	mu   sync.Mutex
	key  crypto.Signer
	leaf *x509.Certificate
	root []byte
}

// Certificate implements tlsport.Credentials.
func (c *Credentials) Certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.leaf == nil || now.After(c.leaf.NotBefore.Add(trust.RenewAfter)) || now.Before(c.leaf.NotBefore) {
		if err := c.issue(now); err != nil {
			return nil, err
		}
	}
	return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw, c.root}, PrivateKey: c.key, Leaf: c.leaf}, nil
}

func (c *Credentials) issue(now time.Time) error {
	authority, err := c.Authority.Open()
	if err != nil {
		return err
	}
	if c.key == nil {
		if c.key, err = trust.NewKey(); err != nil {
			return err
		}
	}
	p := trust.Principal{Cluster: trust.ClusterOf(authority.Root), Role: trust.Server, ID: c.Name}
	der, err := authority.Issue(p, c.key.Public(), now)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "the server's certificate")
	}
	c.leaf, c.root = leaf, authority.Root.Raw
	return nil
}

// Rules implements tlsport.Credentials. Without an authority nobody is believed.
func (c *Credentials) Rules(string) trust.Rules {
	rules := trust.Rules{Now: time.Now()}
	if stored := c.Authority.Store.Snapshot().Authority(nil); stored != nil {
		if root, err := x509.ParseCertificate(stored.Root); err == nil { // else there is no root to believe by
			rules.Roots = []*x509.Certificate{root}
		}
	}
	return rules
}

package keyring

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/server/fsm/joining"
)

// Credentials are what a server shows to nodes and to other servers. Having the cluster's authority it issues its own
// certificate, whenever that is due: so one that was off for longer than certificates live comes up again.
type Credentials struct {
	Name      string
	Authority *Authority
	// Own has the server's key, and what it last showed: without the cluster's state there is no authority. nil: nobody
	// comes from elsewhere, and the key lives as long as the process.
	Own *credentials.Credentials

	mu    sync.Mutex
	key   crypto.Signer
	leaf  *x509.Certificate
	chain [][]byte // leaf and what goes with it
	as    uint64   // the index of the authority that issued it
}

// Certificate implements tlsport.Credentials.
func (c *Credentials) Certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	as := joining.RootsAsOf(c.Authority.Store.Snapshot())
	if c.leaf == nil || as != c.as || !now.Before(trust.RenewAt(c.leaf, 0)) || now.Before(c.leaf.NotBefore) {
		switch err := c.issue(now); {
		case err == nil:
			c.as = as
		case c.Own != nil && c.Own.Joined():
			return c.Own.Certificate() // servers believe it by its key
		default:
			return nil, err
		}
	}
	return &tls.Certificate{Certificate: c.chain, PrivateKey: c.key, Leaf: c.leaf}, nil
}

func (c *Credentials) issue(now time.Time) error {
	authority, err := c.Authority.Open()
	if err != nil {
		return err
	}
	if c.key == nil {
		if c.key, err = c.own(); err != nil {
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
	if c.Own != nil {
		if err := c.Own.Keep(der, authority.Trusted); err != nil {
			return err
		}
	}
	c.leaf, c.chain = leaf, [][]byte{der}
	for _, up := range authority.Chain {
		c.chain = append(c.chain, up.Raw)
	}
	return nil
}

func (c *Credentials) own() (crypto.Signer, error) {
	if c.Own != nil {
		return c.Own.Key(), nil
	}
	return trust.NewKey()
}

// Rules implements tlsport.Credentials. Without an authority nobody is believed.
func (c *Credentials) Rules(string) trust.Rules {
	rules := trust.Rules{Now: time.Now()}
	if c.Own != nil { // a server that starts has no state yet
		rules.Roots = c.Own.Roots()
		rules.Known = map[string]trust.KeyID{}
		for _, s := range c.Own.Servers() {
			rules.Known[s.Name] = s.Key
		}
	}
	if stored := c.Authority.Store.Snapshot().Authority(nil); stored != nil {
		if roots, _, err := trust.Trusted(stored.Root, stored.Former); err == nil { // else nobody is believed
			rules.Roots = roots
		}
	}
	rules.Denied = func(who trust.Peer) bool { return joining.Refuses(c.Authority.Store.Snapshot(), who) }
	return rules
}

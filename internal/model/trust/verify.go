package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
)

// Rules say when a certificate is believed.
type Rules struct {
	// Roots are those of the cluster that are trusted: the present one, and those before while they are.
	Roots []*x509.Certificate
	// Now is the time to judge by. A node takes the later of its clock and the newest time that a server has told it:
	// a clock that was set back lets nothing live again.
	Now time.Time
	// Known, of servers judging servers, are the keys of the servers of the cluster: whoever holds one of them is
	// believed whatever the date and whichever root has issued, so that a cluster that was off for longer than
	// certificates live comes up again, and a server that was off while the root was replaced comes back.
	Known map[string]KeyID // by name
	// Expired lets a certificate pass that is over: for the renewal of it alone.
	Expired bool
	// Denied says who is refused whatever is shown; nil: nobody is.
	Denied func(Peer) bool
}

// Peer is who is at the other end of a connection.
type Peer struct {
	Principal
	Key     KeyID
	Expired bool // its certificate is over; it was let in for its renewal
	// Leaf is the certificate that it has shown; nil: none is known.
	Leaf *x509.Certificate
}

// Verify judges the certificates that the other end of a connection presents, its own first.
func (r Rules) Verify(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, fault.New(fault.Denied, "verify", "peer", "it presents no certificate")
	}
	leaf := chain[0]
	p, err := Named(leaf)
	if err != nil {
		return Peer{}, err
	}
	peer := Peer{Principal: p, Key: KeyOf(leaf), Leaf: leaf}
	if r.Denied != nil && r.Denied(peer) {
		return Peer{}, fault.New(fault.Denied, "verify", p.String(), "it is denied")
	}
	known := p.Role == Server && r.Known[p.ID] == peer.Key && r.of(p.Cluster) // "" is no key
	if err := r.signed(chain, p); err != nil && (!known || leaf.IsCA) {
		return Peer{}, err
	}
	switch late := r.late(leaf); {
	case late == "":
	case known:
	case r.Expired && leaf.NotAfter.Before(r.Now):
		peer.Expired = true
	default:
		return Peer{}, fault.New(fault.Denied, "verify", p.String(), late)
	}
	return peer, nil
}

// of tells whether a root of a cluster is trusted.
func (r Rules) of(cluster string) bool {
	return slices.ContainsFunc(r.Roots, func(root *x509.Certificate) bool { return ClusterOf(root) == cluster })
}

// late says why a certificate is not good at the time; empty: it is.
func (r Rules) late(leaf *x509.Certificate) string {
	switch {
	case r.Now.Before(leaf.NotBefore):
		return fmt.Sprintf("its certificate is good from %s on, and here it is %s: one of the clocks is wrong",
			leaf.NotBefore.Format(time.RFC3339), r.Now.Format(time.RFC3339))
	case r.Now.After(leaf.NotAfter):
		return "its certificate was good until " + leaf.NotAfter.Format(time.RFC3339)
	}
	return ""
}

// signed makes sure that a root of the principal's cluster has issued the certificate, or one that such a root vouches
// for. Dates are judged apart: those of roots do not count.
func (r Rules) signed(chain []*x509.Certificate, p Principal) error {
	leaf := chain[0]
	if leaf.IsCA {
		return fault.New(fault.Denied, "verify", p.String(), "its certificate is one that issues others")
	}
	issuers := make([]*x509.Certificate, 0, len(r.Roots)+len(chain))
	for _, root := range r.Roots {
		if ClusterOf(root) == p.Cluster {
			issuers = append(issuers, root)
		}
	}
	for _, c := range chain[1:] {
		for _, root := range r.Roots {
			if ClusterOf(root) == p.Cluster && ClusterOf(c) == p.Cluster && c.CheckSignatureFrom(root) == nil {
				issuers = append(issuers, c)
				break
			}
		}
	}
	for _, issuer := range issuers {
		if leaf.CheckSignatureFrom(issuer) == nil {
			return nil
		}
	}
	return fault.Wrap(errUntrusted, fault.Denied, "verify", p.String())
}

var errUntrusted = errors.New("its certificate was issued by no root that is trusted here")

// IsUntrusted tells whether a certificate was refused because no root that is trusted speaks for it.
func IsUntrusted(err error) bool { return errors.Is(err, errUntrusted) }

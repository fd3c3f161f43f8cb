package trust

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"time"

	"berth/internal/base/fault"
)

// Lifetime is how long the certificate of a server or a node is good for where the servers are not told otherwise; what
// they may be told is bounded. RootLifetime is that of the authority.
const (
	Lifetime     = 24 * time.Hour
	MinLifetime  = 2 * time.Second
	MaxLifetime  = 30 * 24 * time.Hour
	RootLifetime = 10 * 365 * 24 * time.Hour
	// skew is how much earlier than its issue a certificate is good: clocks are not equal.
	skew = 10 * time.Minute
)

// RenewAt is when a certificate is to be renewed: when two thirds of its life have passed since it was issued, or up to
// a twelfth of its life before. spread, from 0 to 1, is different for each: those that joined together do not renew
// together.
func RenewAt(leaf *x509.Certificate, spread float64) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(skew))
	return leaf.NotAfter.Add(-life/3 - time.Duration(spread*float64(life)/12))
}

// Authority issues the certificates of a cluster.
type Authority struct {
	Root *x509.Certificate
	// Trusted are the roots that are trusted: Root, and those before it while they are.
	Trusted []*x509.Certificate
	// Chain goes with every certificate that it issues, to whoever judges it: the root, and where another root was
	// before it, what that one vouches for it by, and that one.
	Chain []*x509.Certificate
	// Lifetime is that of the certificates that it issues; 0: Lifetime of this package.
	Lifetime time.Duration
	key      crypto.Signer
}

// NewKey makes a key, for an authority or a principal.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return key, fault.Wrap(err, fault.Internal, "make key", "")
}

// NewRoot makes the root certificate of a cluster, signed with its own key.
func NewRoot(cluster string, key crypto.Signer, now time.Time) ([]byte, error) {
	if err := (Principal{cluster, Server, "root"}).check(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "berth " + cluster},
		URIs:                  []*url.URL{{Scheme: scheme, Host: cluster}},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(RootLifetime),
		IsCA:                  true, // it issues for principals, and vouches for the root after it
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return der, fault.Wrap(err, fault.Internal, "make authority", cluster)
}

// OpenAuthority is the authority of a root certificate and its key.
func OpenAuthority(root []byte, key crypto.Signer) (*Authority, error) {
	c, err := x509.ParseCertificate(root)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "open authority", "")
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(c.PublicKey) {
		return nil, fault.New(fault.Invalid, "open authority", c.Subject.CommonName,
			"the key is not that of the certificate")
	}
	alone := []*x509.Certificate{c}
	return &Authority{Root: c, Trusted: alone, Chain: alone, key: key}, nil
}

// Issue makes the certificate of a principal of the authority's cluster for its public key.
func (a *Authority) Issue(p Principal, public crypto.PublicKey, now time.Time) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Cluster != ClusterOf(a.Root) {
		return nil, fault.New(fault.Denied, "issue certificate", p.String(), "it belongs to another cluster")
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: p.String()},
		URIs:                  []*url.URL{p.URI()},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(cmp.Or(a.Lifetime, Lifetime)),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if p.Role == Server { // a node serves on connections that it has dialled, and needs no name for that
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Root, public, a.key)
	return der, fault.Wrap(err, fault.Internal, "issue certificate", p.String())
}

// CrossSign vouches for the root of the same cluster that follows this one: who trusts this root trusts, by the
// certificate, what the next one issues.
func (a *Authority) CrossSign(next *x509.Certificate, now time.Time) ([]byte, error) {
	if ClusterOf(next) != ClusterOf(a.Root) || !next.IsCA {
		return nil, fault.New(fault.Denied, "vouch for", next.Subject.CommonName, "it is no root of this cluster")
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               next.Subject,
		URIs:                  next.URIs,
		NotBefore:             now.Add(-skew),
		NotAfter:              a.Root.NotAfter,
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
		SubjectKeyId:          next.SubjectKeyId,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Root, next.PublicKey, a.key)
	return der, fault.Wrap(err, fault.Internal, "vouch for", next.Subject.CommonName)
}

// MadeAt is when a root was made: its certificate is good from a little before that on.
func MadeAt(root *x509.Certificate) time.Time { return root.NotBefore.Add(skew) }

// ClusterOf is the cluster that a root is of.
func ClusterOf(root *x509.Certificate) string {
	if len(root.URIs) != 1 || root.URIs[0].Scheme != scheme {
		return ""
	}
	return root.URIs[0].Host
}

// serial is random, RFC 5280 §4.1.2.2: 20 octets at most, positive.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return new(big.Int).SetBytes(b[:])
}

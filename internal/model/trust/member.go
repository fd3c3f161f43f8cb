package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"berth/internal/base/fault"
)

// Member is a server or a node that has joined, with the one key that it is believed by.
type Member struct {
	Role   Role
	ID     string
	Key    KeyID
	Token  string // by whose admission it came in; empty: it began the cluster
	Joined time.Time
	// NodePool is the one pool in which a node may be, by the token with which it came in; empty: any that it names.
	NodePool string `cbor:",omitempty"`
	// Seal is the public key that is sealed with what this one alone may open: X25519 (RFC 7748). Servers have one.
	Seal []byte `cbor:",omitempty"`
	// Address is where others reach a server's TLS port.
	Address string `cbor:",omitempty"`
	// Removed is when a server was taken out; zero: it is a member. Its name stays taken, and its key is refused: what
	// it has of the log may be behind what it has helped to commit.
	Removed time.Time
	// Denied is why a node gets no certificate any more; nil: it does. Its id stays taken, and its key is refused under
	// every id.
	Denied *Denial `cbor:",omitempty"`
	// Root is that of the cluster which the node last showed to have on its disk; empty: it has shown none.
	Root KeyID `cbor:",omitempty"`

	CreateIndex, ModifyIndex uint64
}

// Accepts says whether a key is the member's. Nobody comes in under the name of another one.
func (m *Member) Accepts(key KeyID) error {
	switch {
	case m.Gone():
		return removed(m)
	case m.Denied != nil:
		return m.Denied.refuse(m.ID)
	case m.Key == key:
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Conflict, "join as", Principal{Role: m.Role, ID: m.ID}.String(),
			fmt.Sprintf("it joined on %s with another key", m.Joined.Format(time.RFC3339))),
		"put its own key back from a copy; or join under another name, with an empty data_dir and a token")
}

// MayBeIn says whether a node may be in a pool. One that came in without a token names its pool itself.
func (m *Member) MayBeIn(pool string) error {
	if m == nil || m.NodePool == "" || m.NodePool == pool {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Denied, "be in", fmt.Sprintf("node pool %q as node %s", pool, m.ID),
			fmt.Sprintf("it joined with a token for nodes of pool %q", m.NodePool)),
		fmt.Sprintf("write client { node_pool = %q }; or let it join anew under another id, with a token for pool %q",
			m.NodePool, pool))
}

// Gone reports whether the member was removed.
func (m *Member) Gone() bool { return !m.Removed.IsZero() }

// ServerAt is where a server of a cluster is found, and the key that it is believed by.
type ServerAt struct {
	Name, Address string
	Key           KeyID
}

// Listed are the members that are servers and were not removed, as others find them.
func Listed(servers iter.Seq[*Member]) []ServerAt {
	var out []ServerAt
	for m := range servers {
		if m.Role == Server && !m.Gone() {
			out = append(out, ServerAt{Name: m.ID, Address: m.Address, Key: m.Key})
		}
	}
	return out
}

// opRemoved is the operation in faults of servers that were removed.
const opRemoved = "stay in the cluster as"

func removed(m *Member) error {
	return &fault.Error{ // one error, not two nested: its operation must survive the wire
		Kind:    fault.Denied,
		Op:      opRemoved,
		Subject: Principal{Role: m.Role, ID: m.ID}.String(),
		Err:     fmt.Errorf("it was removed on %s", m.Removed.Format(time.RFC3339)),
		Hint: "to bring the machine back, give it another name, move the directory server of its data_dir away, and " +
			"let it join with a token",
	}
}

// IsRemoved tells whether a server was refused because it was removed from the cluster.
func IsRemoved(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.Denied && f.Op == opRemoved
}

// NewRequest asks for a certificate of a principal: the request is signed with the principal's key, so that it shows
// who has that key (RFC 2986).
func NewRequest(p Principal, key crypto.Signer) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: p.String()},
		URIs:    []*url.URL{p.URI()},
	}, key)
	return der, fault.Wrap(err, fault.Internal, "ask for the certificate of", p.String())
}

// maxRequest bounds a request, in bytes; one has some 300.
const maxRequest = 4 << 10

// Request is one that was read: whose it is, and by which key it is signed.
type Request struct {
	Principal
	Public crypto.PublicKey
	Key    KeyID
}

// ParseRequest reads a request and makes sure of its signature.
func ParseRequest(der []byte) (Request, error) {
	refuse := func(why string) (Request, error) {
		return Request{}, fault.New(fault.Invalid, "read", "certificate request", why)
	}
	if len(der) > maxRequest {
		return refuse(fmt.Sprintf("it has %d bytes; the bound is %d", len(der), maxRequest))
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return refuse(err.Error())
	}
	// Before its signature is looked at: how long that takes is for who chooses the key to say.
	if key, ok := r.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return refuse("its key is none of ECDSA on the curve P-256")
	}
	if err := r.CheckSignature(); err != nil {
		return refuse("it is not signed with the key that it names: " + err.Error())
	}
	// What names a principal is read in one place, for certificates and for those who ask for one.
	p, err := Named(&x509.Certificate{
		Subject:        r.Subject,
		URIs:           r.URIs,
		EmailAddresses: r.EmailAddresses,
		IPAddresses:    r.IPAddresses,
	})
	if err != nil {
		return refuse(err.Error())
	}
	return Request{Principal: p, Public: r.PublicKey, Key: keyID(r.RawSubjectPublicKeyInfo)}, nil
}

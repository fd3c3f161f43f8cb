// Package trust owns who is who in a cluster: the authority that a cluster has for itself, the certificates that it
// issues, the principals that they name, and when they are believed. It decides over data: keys, certificates and times
// are handed in. Servers and nodes, and what listens for them, judge by it.
package trust

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Role is what a principal may be. A person is none of them: people show tokens.
type Role string

// Roles.
const (
	Server Role = "server"
	Node   Role = "node"
	// Stranger is who has shown no certificate. None names one.
	Stranger Role = "stranger"
)

// Principal is who holds a certificate: a server by its name, a node by its id, in one cluster.
type Principal struct {
	Cluster string // its id
	Role    Role
	ID      string
}

// scheme is that of the URI that names a principal in its certificate.
const scheme = "berth"

// URI is the principal as its certificate names it: berth://<cluster>/<role>/<id>.
func (p Principal) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: p.Cluster, Path: "/" + string(p.Role) + "/" + p.ID}
}

// String names the principal for people.
func (p Principal) String() string {
	if p.Role == Stranger {
		return "somebody without a certificate"
	}
	return fmt.Sprintf("%s %q", p.Role, p.ID)
}

// check refuses what a certificate could not name without doubt.
func (p Principal) check() error {
	switch {
	case !ids.IsUUID(p.Cluster):
		return fault.New(fault.Invalid, "name", p.String(), fmt.Sprintf("%q is no id of a cluster", p.Cluster))
	case p.Role == Node && !ids.IsUUID(p.ID), p.Role == Server && !IsName(p.ID):
		return fault.New(fault.Invalid, "name", p.String(), "a node is named by a UUID, a server by letters, digits, "+
			"dots, hyphens and underscores")
	case p.Role != Node && p.Role != Server:
		return fault.New(fault.Invalid, "name", p.String(), "there is no such role")
	}
	return nil
}

// IsName reports whether a server can be called so.
func IsName(s string) bool {
	if s == "" || len(s) > 128 || s == "." || s == ".." {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r))
	}) < 0
}

// Named is the principal that a certificate names. It has exactly one name, and that is a principal's: what could be
// read in two ways is refused.
func Named(c *x509.Certificate) (Principal, error) {
	refuse := func(why string) (Principal, error) {
		return Principal{}, fault.New(fault.Denied, "read certificate", c.Subject.CommonName, why)
	}
	if len(c.URIs) != 1 || len(c.EmailAddresses)+len(c.IPAddresses) > 0 {
		return refuse("it names nobody, or several")
	}
	u := c.URIs[0]
	role, id, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	p := Principal{Cluster: u.Host, Role: Role(role), ID: id}
	if !ok || p.URI().String() != u.String() {
		return refuse(fmt.Sprintf("it names %q, which is no principal", u))
	}
	if err := p.check(); err != nil {
		return refuse(err.Error())
	}
	return p, nil
}

// KeyID tells keys apart: a hash of the public key as certificates hold it, RFC 5280, SubjectPublicKeyInfo.
type KeyID string

// KeyOf is the id of a certificate's key.
func KeyOf(c *x509.Certificate) KeyID { return keyID(c.RawSubjectPublicKeyInfo) }

func keyID(spki []byte) KeyID {
	sum := sha256.Sum256(spki)
	return KeyID(encoding.EncodeToString(sum[:]))
}

// encoding is for what people copy: no case, no signs that lines are broken at.
var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// KeyIDOf is the id of a public key.
func KeyIDOf(public crypto.PublicKey) (KeyID, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	return keyID(der), fault.Wrap(err, fault.Internal, "read", "public key")
}

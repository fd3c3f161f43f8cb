package wire

import (
	"time"

	"berth/internal/model/trust"
)

// Methods by which servers and nodes come into a cluster and stay in it; served by the server half.
var (
	// TrustCertify is for those who have no certificate yet, or one that is over, too.
	TrustCertify    = Unary[CertifyRequest, CertifyReply]("Trust.Certify")
	TrustAdmit      = Unary[AdmitRequest, AdmitReply]("Trust.Admit")
	TrustAdmissions = Unary[Query, AdmissionsReply]("Trust.Admissions")
	TrustRevoke     = Unary[RevokeRequest, Written]("Trust.Revoke")
)

// tokenPart names the join token among secrets on the wire.
const tokenPart = "token"

// CertifyRequest asks for a certificate. The request itself shows who has the key; whoever has not joined yet shows a
// join token besides.
type CertifyRequest struct {
	Request []byte // PKCS #10, DER
	Token   Secrets
	Address string // of a server: where others reach its TLS port
	Seal    []byte // of a server: what is sealed for it alone is sealed with this public key
	// Roots are those of the cluster that the sender has on its disk; none: it joins.
	Roots []trust.KeyID `cbor:",omitempty"`
	// Patient: the sender understands CertifyReply.Again.
	Patient bool `cbor:",omitempty"`
}

// Anyone says that no certificate is needed to call this.
func (*CertifyRequest) Anyone() {}

// CertifyReply is a certificate, with what the cluster is known by.
type CertifyReply struct {
	Certificate []byte   // DER
	Roots       [][]byte // DER, the present one first
	RootsAsOf   uint64   `cbor:",omitempty"` // the index at which they last changed
	Now         time.Time
	Servers     []trust.ServerAt // of the cluster
	// Again is how long the sender is to wait until it asks again, where many ask; there is no certificate then.
	Again time.Duration `cbor:",omitempty"`
}

// SealToken takes a join token onto the wire.
func SealToken(t trust.JoinToken) Secrets {
	return Secrets{Values: map[string]string{tokenPart: t.Reveal()}}
}

// OpenToken takes it off the wire. ok: there is one.
func (s Secrets) OpenToken() (t trust.JoinToken, ok bool, err error) {
	text, ok := s.Values[tokenPart]
	if !ok {
		return trust.JoinToken{}, false, nil
	}
	t, err = trust.ParseJoinToken(text)
	return t, true, err
}

// Token is the text of a join token, for who asked for it; empty: there is none.
func (s Secrets) Token() string { return s.Values[tokenPart] }

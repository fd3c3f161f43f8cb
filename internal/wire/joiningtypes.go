package wire

import (
	"time"

	"berth/internal/model/trust"
)

// AdmitRequest asks for a join token.
type AdmitRequest struct {
	Role     trust.Role
	NodePool string `cbor:",omitempty"` // in which alone who joins may be; empty: in any
	Uses     int
	Good     time.Duration // from now on
	By       string        // as the API knows them
}

// AdmitReply holds a join token; it stands nowhere else.
type AdmitReply struct {
	Token     Secrets
	Admission *trust.Admission
	Index     uint64
}

// AdmissionsReply lists what is known of join tokens.
type AdmissionsReply struct {
	Meta
	Admissions []*trust.Admission
}

// RevokeRequest takes a join token back.
type RevokeRequest struct{ ID string }

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
	// Joined are who came in by them, by the id of the token.
	Joined map[string][]JoinedBy
}

// JoinedBy is a server or a node that came in by a join token.
type JoinedBy struct {
	ID     string
	Joined time.Time
	Denied bool // or a server that was removed
}

// RevokeRequest takes a join token back.
type RevokeRequest struct{ ID string }

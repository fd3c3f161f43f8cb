package wire

import (
	"time"

	"berth/internal/base/ids"
)

// Methods over the cluster itself, served by the server half.
var (
	SystemGC     = Unary[Empty, Written]("System.GC")
	SystemStatus = Unary[Empty, SystemStatusReply]("System.Status")
	SystemSearch = Unary[SearchRequest, SearchReply]("System.Search")
	SigningKeys  = Unary[Query, SigningKeysReply]("Keyring.SigningKeys")
)

// SystemStatusReply describes the servers.
type SystemStatusReply struct {
	Leader string // address, empty when unknown
	// Leaderless says since when no server leads, and which are missing; empty: one does, or may do any moment.
	Leaderless string
	Members    []Member
	Stats      map[string]map[string]string
	Index      uint64
}

// Member is a server.
type Member struct {
	Name   string
	Addr   string
	Port   uint16
	Status string
	Tags   map[string]string
}

// SearchRequest looks for ids by prefix.
type SearchRequest struct {
	Namespace ids.Namespace
	Prefix    string
	Context   string // "all" or one of the contexts
}

// SearchReply lists at most 20 ids per context.
type SearchReply struct {
	Index       uint64
	Matches     map[string][]string
	Truncations map[string]bool
}

// SigningKeysReply lists the public parts of the keys that the cluster signs with.
type SigningKeysReply struct {
	Meta
	Keys []SigningKey
}

// SigningKey is the public part of a key pair.
type SigningKey struct {
	ID                       string
	Algorithm                string // as JSON Web Keys name it
	Public                   []byte
	RSA                      []byte // modulus of its RSA pair; empty: it has none
	Created                  time.Time
	CreateIndex, ModifyIndex uint64
}

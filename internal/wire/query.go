package wire

import (
	"time"

	"berth/internal/base/ids"
)

// Query is the part of a read that all reads share. Reads block while the index of what they read is not above MinIndex.
type Query struct {
	Namespace ids.Namespace // AllNamespaces for lists over all
	MinIndex  uint64
	Wait      time.Duration // 0: the default of 5 minutes
	Stale     bool
	Prefix    string
	Filter    string // go-bexpr over the API shape; evaluated by the HTTP layer
	PerPage   int
	NextToken string
	Reverse   bool
}

// AllNamespaces asks a list for every namespace.
const AllNamespaces ids.Namespace = "*"

// Meta is the part of a reply that all reads share.
type Meta struct {
	Index       uint64 // of the table or object read, at least 1
	KnownLeader bool
	LastContact time.Duration
}

// Written is the reply of writes that only tell their index.
type Written struct {
	Index    uint64
	Warnings []string
}

// Empty is a request without members.
type Empty struct{}

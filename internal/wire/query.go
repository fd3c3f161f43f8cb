package wire

import (
	"time"

	"berth/internal/base/ids"
)

// Query is the part of a read that all reads share. Reads block while the index of what they read is not above
// MinIndex.
type Query struct {
	Namespace ids.Namespace // AllNamespaces for lists over all
	MinIndex  uint64
	Wait      time.Duration // 0: the default of 5 minutes
	Prefix    string        // of the names or ids in a list
	// Stale: any server may answer, by what it has; the reply says how old that is.
	Stale bool
	Page
}

// AnyServer tells whether any server may answer.
func (q Query) AnyServer() bool { return q.Stale }

// Page says which part of a list is asked for; the zero value: all of it.
type Page struct {
	PerPage   int    // 0: no pages
	NextToken string // where this page begins, as the page before said it
	Reverse   bool   // the last first
}

// AllNamespaces asks a list for every namespace.
const AllNamespaces ids.Namespace = "*"

// Meta is the part of a reply that all reads share.
type Meta struct {
	Index       uint64 // of the table or object read, at least 1
	KnownLeader bool
	LastContact time.Duration
}

// Read names what was read; every reply of a read has it.
func (m Meta) Read() Meta { return m }

// Ref names an object in a read.
type Ref[ID ~string] struct {
	Query
	ID ID
}

// One is an object, or nil when there is none; then the index is that of its table.
type One[T any] struct {
	Meta
	Item *T
}

// List is a page of a list.
type List[T any] struct {
	Meta
	Items     []T
	NextToken string
}

// Written is the reply of writes that only tell their index.
type Written struct {
	Index    uint64
	Warnings []string
	Waits    string // set: it is accepted, and not finished yet because of this
}

// Empty is a request without members.
type Empty struct{}

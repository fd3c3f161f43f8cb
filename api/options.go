package api

import "time"

// QueryOptions shape a read. The zero value and nil read the present state with the client's region and namespace.
type QueryOptions struct {
	Region    string
	Namespace string // "*" in lists: all
	Prefix    string // of ids, in lists
	Filter    string // an expression, in lists
	Stale     bool   // a server that is not the leader may answer

	// WaitIndex makes the read wait until the state is newer than this index (QueryMeta.Index of the read before), at
	// most WaitTime. 0 does not wait.
	WaitIndex uint64
	WaitTime  time.Duration

	PerPage   int
	NextToken string // QueryMeta.NextToken of the page before
	Reverse   bool

	Params map[string]string // further parameters of the endpoint
}

// WriteOptions shape a write; nil is the same as the zero value.
type WriteOptions struct {
	Region           string
	Namespace        string
	IdempotencyToken string
	Params           map[string]string // further parameters of the endpoint
}

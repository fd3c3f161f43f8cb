package api

import (
	"strconv"
	"time"
)

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

func (r *call) read(o *QueryOptions) *call {
	if o == nil {
		return r
	}
	r.set("region", o.Region).set("namespace", o.Namespace).set("prefix", o.Prefix).set("filter",
		o.Filter).set("next_token", o.NextToken)
	if o.Stale {
		r.query.Set("stale", "")
	}
	if o.WaitIndex > 0 {
		r.set("index", strconv.FormatUint(o.WaitIndex, 10))
	}
	if o.WaitTime > 0 {
		r.set("wait", strconv.FormatInt(o.WaitTime.Milliseconds(), 10)+"ms")
	}
	if o.PerPage > 0 {
		r.set("per_page", strconv.Itoa(o.PerPage))
	}
	if o.Reverse {
		r.setBool("reverse", true)
	}
	for name, value := range o.Params {
		r.set(name, value)
	}
	return r
}

func (r *call) write(o *WriteOptions) *call {
	if o == nil {
		return r
	}
	r.set("region", o.Region).set("namespace", o.Namespace).set("idempotency_token", o.IdempotencyToken)
	for name, value := range o.Params {
		r.set(name, value)
	}
	return r
}

package api

import (
	"strconv"
)

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

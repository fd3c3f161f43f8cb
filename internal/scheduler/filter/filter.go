// Package filter owns the question whether a node may run a group: one file per filter, each of which says in the words
// of the API why it refused and, for people, what would help. It owns the ledger of claims too, which says whether a
// volume can be given to one more alloc, counting the plan so far. Only the scheduler and the planner import it, and
// server/provision, which makes volumes where their jobs may run.
package filter

import (
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Filter decides about nodes for one group. Prepare is called before the first Check and says whether there is anything
// to check at all. Check answers with the key under which metrics count the refusal; empty means that the node passes.
// Explain puts the refusal of such a node into words.
type Filter interface {
	Prepare(*Request) bool
	Check(*node.Node) string
	Explain(*node.Node) (reason, hint string)
}

// Request is what a place is sought for.
type Request struct {
	Job   *job.Job
	Group *job.TaskGroup
	// Index of the alloc; it matters to volumes with per_alloc only.
	Index int
	// Replaces names the alloc whose end frees capacity for this one; empty: none.
	Replaces ids.Alloc
}

// Chain holds the filters that have something to check, in the order in which they are asked.
type Chain []Filter

// Prepare returns the chain of those filters that apply to the request.
func Prepare(r *Request, filters ...Filter) Chain {
	var out Chain
	for _, f := range filters {
		if f.Prepare(r) {
			out = append(out, f)
		}
	}
	return out
}

// Check asks every filter; it returns the first that refuses with its key, or nil.
func (c Chain) Check(n *node.Node) (Filter, string) {
	for _, f := range c {
		if key := f.Check(n); key != "" {
			return f, key
		}
	}
	return nil, ""
}

// Static returns the filters whose answer depends on the node and the group alone, never on what else is placed.
func Static(region string) []Filter {
	return []Filter{&Drivers{}, &DriverMounts{}, &Networks{}, &Constraints{region: region}, &HostVolumes{},
		&PIDs{}, Consul{}}
}

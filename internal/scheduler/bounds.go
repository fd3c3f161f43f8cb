package scheduler

import (
	"fmt"

	"berth/internal/model/alloc"
	"berth/internal/model/node"
)

// everyNode stands for a node in reasons that hold on all.
const everyNode = "every node"

// maxExcesses bounds how many of a job's excesses are named.
const maxExcesses = 10

// putOff leaves placements of a group to the evaluation that follows.
func (r *run) putOff(group string, n int) {
	r.out.Later += n
	r.out.Queued[group] += n
}

// tellPool names the pool of the job in what explains why it was not placed: the job may be of another one later.
func (r *run) tellPool() {
	if !r.view.Deployments {
		for _, m := range r.out.Failed { // each by itself, as below
			m.Storage = ""
		}
	}
	if !r.view.Pools {
		return
	}
	for _, m := range r.out.Failed { // each by itself: the order does not show
		m.NodePool = node.PoolOf(r.job.NodePool)
	}
}

// tellBounds explains why nothing is placed of a job that passes a bound. It was stored before there was that bound:
// registration refuses such a job.
func (r *run) tellBounds() {
	if len(r.beyond) == 0 || len(r.job.TaskGroups) == 0 {
		return
	}
	for _, e := range r.beyond[:min(len(r.beyond), maxExcesses)] {
		group := e.Group
		if group == "" {
			group = r.job.TaskGroups[0].Name // what is the whole job's is named once
		}
		m := r.out.Failed[group]
		if m == nil {
			m = &alloc.Metric{ConstraintFiltered: map[string]int{}}
			r.out.Failed[group], r.out.Queued[group] = m, 1
		}
		m.ConstraintFiltered[e.Error()] = 1 // what clients show that don't know reasons
		m.Reasons = append(m.Reasons, alloc.NodeReason{Name: everyNode, Reason: e.Error(),
			Hint: fmt.Sprintf("register the job with at most %d, or stop it", e.Bound.Max)})
	}
}

package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/job"
)

// Scalings names the table of what jobs were scaled to.
const Scalings = "scalings"

const byPolicies = "policies"

var scalings = &table[job.Scalings]{
	name:     Scalings,
	key:      func(s *job.Scalings) Key { return jobKey(s.Namespace, s.Job) },
	stamp:    stamping(func(s *job.Scalings) (_, _ *uint64) { return &s.CreateIndex, &s.ModifyIndex }),
	modified: func(s *job.Scalings) uint64 { return s.ModifyIndex },
}

// policiesOf files the jobs that have scaling policies.
func policiesOf(j *job.Job) Key {
	if !j.HasPolicies() {
		return ""
	}
	return jobKey(j.Namespace, j.ID)
}

// JobsWithPolicies yields the jobs of a namespace (or of all) that have scaling policies, by namespace and id.
func (s *Snap) JobsWithPolicies(w *Watch, ns ids.Namespace) iter.Seq[*job.Job] {
	return jobs.find(s, w, byPolicies, inNamespace(ns, ""))
}

// Scalings returns what a job was scaled to, or nil.
func (s *Snap) Scalings(w *Watch, ns ids.Namespace, id ids.Job) *job.Scalings {
	return scalings.get(s, w, jobKey(ns, id))
}

// PutScalings stores what a job was scaled to.
func (tx *Tx) PutScalings(s *job.Scalings) { scalings.put(tx, s) }

// Package policies owns how a scaling policy is found, which stands in its job alone. Packages of the server half may
// import it.
package policies

import (
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Find returns a scaling policy by its id.
func Find(s *state.Snap, w *state.Watch, id ids.Scaling) (job.Policy, bool) {
	for j := range s.JobsWithPolicies(w, "") {
		for p := range j.Policies() {
			if p.ID() == id {
				return p, true
			}
		}
	}
	return job.Policy{}, false
}

// Package children owns how what a job has launched stands. Packages of the server half may import it.
package children

import (
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Standing is how a launched job stands.
type Standing int

// Standings.
const (
	Over Standing = iota
	// Placeless is one of which nothing runs, and nothing will by itself: no node is there that has room for it, fits
	// it, or has not refused to start it for good.
	Placeless
	// Going is one of which something runs, or will by itself.
	Going
)

// StandingOf says how a launched job stands.
func StandingOf(s *state.Snap, j *job.Job) Standing {
	for a := range s.AllocsByJob(nil, j.Namespace, j.ID) {
		if !a.ClientTerminal() {
			return Going
		}
	}
	out := Over
	for e := range s.EvalsByJob(nil, j.Namespace, j.ID) {
		switch {
		case e.Terminal():
		case e.Status == eval.StatusBlocked && len(e.FailedTGAllocs) > 0:
			out = Placeless
		default:
			return Going
		}
	}
	return out
}

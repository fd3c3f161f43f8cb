// Package allocreport owns what it means for a stored alloc that its node reports it, or says nothing any more: whether
// that may replace what is stored, which evaluation it calls for, and whether the alloc waits for its node. Commands of
// package fsm ask it.
package allocreport

import (
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Advances reports whether a report may replace what is stored: an end is final, and an alloc that the servers gave up
// as lost can only end.
func Advances(old, reported *alloc.Alloc) bool {
	switch old.ClientStatus {
	case alloc.ClientComplete, alloc.ClientFailed:
		return reported.ClientStatus == old.ClientStatus // more events of the same end
	case alloc.ClientLost:
		return reported.ProcessesGone()
	}
	return true
}

// Reaction is the trigger of the evaluation that a report calls for, or "".
func Reaction(s *state.Snap, old, now *alloc.Alloc) (string, *job.Job) {
	j := s.Job(nil, now.Namespace, now.Job)
	if j.Stopped() || j.CreateIndex != now.JobCreateIndex {
		return "", nil
	}
	switch {
	case old.ClientStatus == alloc.ClientUnknown && now.ClientStatus != alloc.ClientUnknown && !now.ServerTerminal():
		return eval.TriggerReconnect, j
	case now.ClientTerminal() && !old.ClientTerminal() && !now.ServerTerminal() &&
		(now.ClientStatus == alloc.ClientFailed || !job.RunsToEnd(j.Type)):
		return eval.TriggerAllocFailure, j // what completes is over in a batch job alone
	case now.ClientTerminal() && !old.ClientTerminal() && now.ServerTerminal() && waitsForEnd(j, now):
		return eval.TriggerRollingUpdate, j
	}
	return "", nil
}

// waitsForEnd reports whether the end of a stopped alloc lets something of its job go on: a rolling update counts it.
func waitsForEnd(j *job.Job, a *alloc.Alloc) bool {
	g := j.Group(a.TaskGroup)
	return g != nil && g.Update != nil && g.Update.MaxParallel > 0 && a.JobVersion != j.Version
}

// WaitsForNode reports whether an alloc whose node falls silent waits for it, and for how long; 0: without an end.
func WaitsForNode(j *job.Job, a *alloc.Alloc) (within time.Duration, waits bool) {
	if j.Stopped() || a.ServerTerminal() || j.CreateIndex != a.JobCreateIndex || a.ClientStatus == alloc.ClientPending {
		return 0, false // a pending one has nothing that could be taken up again
	}
	g := j.Group(a.TaskGroup)
	if g == nil {
		return 0, false
	}
	return g.Disconnect.Waits()
}

package diff

import (
	"slices"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// keptEvents bounds the history that an alloc carries: enough for any delay function to have reached its ceiling.
const keptEvents = 16

// systemPolicy replaces failed allocs of system jobs, whose jobs have no policy of their own: without end, ever slower.
var systemPolicy = job.ReschedulePolicy{
	Unlimited:     true,
	Delay:         30 * time.Second,
	DelayFunction: "exponential",
	MaxDelay:      time.Hour,
}

// NextTry says when a failed alloc is replaced; false: never, its attempts are used up.
func NextTry(p *job.ReschedulePolicy, a *alloc.Alloc) (time.Time, time.Duration, bool) {
	if p == nil || !p.Unlimited && p.Attempts <= 0 {
		return time.Time{}, 0, false
	}
	failed := failedAt(a)
	if !p.Unlimited {
		recent := 0
		for _, e := range a.Reschedule {
			if e.Time > failed.Add(-p.Interval).UnixNano() {
				recent++
			}
		}
		if recent >= p.Attempts {
			return time.Time{}, 0, false
		}
	}
	d := nextDelay(p, a, failed)
	return failed.Add(d), d, true
}

// failedAt is when the last task ended, else when the alloc was last written.
func failedAt(a *alloc.Alloc) time.Time {
	var last time.Time
	for _, s := range a.TaskStates {
		if s != nil && s.FinishedAt.After(last) { // the latest, whatever the order
			last = s.FinishedAt
		}
	}
	if last.IsZero() {
		return time.Unix(0, a.ModifyTime).UTC()
	}
	return last
}

// nextDelay computes the pause from those before. An alloc that lived longer than the ceiling begins anew.
func nextDelay(p *job.ReschedulePolicy, a *alloc.Alloc, failed time.Time) time.Duration {
	var past []time.Duration
	for _, e := range a.Reschedule {
		past = append(past, e.Delay)
	}
	if n := len(a.Reschedule); n > 0 && p.MaxDelay > 0 && failed.UnixNano()-a.Reschedule[n-1].Time > int64(p.MaxDelay) {
		past = nil
	}
	d := p.Delay
	switch n := len(past); p.DelayFunction {
	case "exponential":
		if n > 0 {
			d = saturatingAdd(past[n-1], past[n-1])
		}
	case "fibonacci":
		switch {
		case n == 1:
			d = past[0]
		case n > 1:
			d = saturatingAdd(past[n-1], past[n-2])
		}
	}
	if p.DelayFunction != "constant" && p.MaxDelay > 0 {
		d = min(d, p.MaxDelay)
	}
	return max(d, p.Delay)
}

func saturatingAdd(a, b time.Duration) time.Duration {
	if s := a + b; s >= a && s >= b {
		return s
	}
	return 1<<63 - 1
}

// moved reports an alloc that failed on another node than all of those before it: from then on pauses are kept, or a
// group that no node can start would hurry through all of them.
func moved(a *alloc.Alloc) bool {
	return len(a.Reschedule) > 0 &&
		!slices.ContainsFunc(a.Reschedule, func(e alloc.RescheduleEvent) bool { return e.PrevNode == a.Node })
}

// History returns the events that the successor of a failed alloc carries.
func History(failed *alloc.Alloc, now time.Time, delay time.Duration) []alloc.RescheduleEvent {
	old := failed.Reschedule
	if len(old) >= keptEvents {
		old = old[len(old)-keptEvents+1:]
	}
	out := append([]alloc.RescheduleEvent{}, old...)
	return append(out,
		alloc.RescheduleEvent{Time: now.UnixNano(), PrevAlloc: failed.ID, PrevNode: failed.Node, Delay: delay})
}

package deployment

import (
	"slices"
	"time"
)

// Facts decide what becomes of a deployment. Times are of one observer, the leader, by its monotonic clock; with a zero
// Now no deadline is looked at, and what follows holds at any time.
type Facts struct {
	Now        time.Time
	Deployment *Deployment
	Groups     map[string]GroupFacts // one for each of the deployment's
	Memory     Memory
}

// GroupFacts are how a group stands.
type GroupFacts struct {
	Want    int    // allocs that it is to have; of a system job those that are there
	Here    int    // of the version, that should run
	Healthy int    // of those, healthy
	Tried   int    // canaries that should run and are healthy
	Bad     int    // placed by the deployment and not healthy, whether they run or not
	Old     int    // of other versions, that should run
	Storage string // why its allocs wait for storage; empty: none does
	// Mark changes with each alloc that becomes healthy.
	Mark uint64
}

// Memory is what the observer keeps of each group from look to look: when it came further last. A new leader counts
// anew, which can only be later.
type Memory map[string]Step

// Step is the last that a group has come further.
type Step struct {
	Mark  uint64
	Since time.Time
}

// Do is what to do about a deployment.
type Do uint8

// Values of Do.
const (
	Rest    Do = iota // nothing: it is over, or held
	Await             // look again at Until, or when something changed
	Promote           // have all canaries take the place of what they are tried against
	Succeed
	Fail
)

var doNames = [...]string{"rest", "await", "promote", "succeed", "fail"}

func (d Do) String() string { return doNames[d] }

// Result is what follows from the facts.
type Result struct {
	Do     Do
	Until  time.Time // zero: nothing changes by time alone
	Why    string    // with Fail
	Revert bool      // with Fail: go back to the version before
	Memory Memory
}

// Next decides about a deployment.
func Next(f Facts) Result {
	d := f.Deployment
	v := Result{Memory: f.Memory}
	if !d.Active() || d.Status == Paused {
		v.Memory = nil // time that it is held does not count
		return v
	}
	v.Memory = f.remember()
	names := d.Names()
	open := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return f.stands(n) != working })
	for _, n := range names {
		if g := f.Groups[n]; d.Groups[n].ProgressDeadline == 0 && g.Bad > 0 && f.stands(n) != done {
			return f.fail(v, n, WhyUnhealthy)
		}
	}
	for _, n := range open {
		if until := v.Memory[n].Since.Add(d.Groups[n].ProgressDeadline); f.timed(n) {
			if !f.Now.Before(until) {
				return f.fail(v, n, WhyLate)
			}
			if v.Until.IsZero() || until.Before(v.Until) {
				v.Until = until
			}
		}
	}
	v.Do = f.further(names)
	if v.Do != Await {
		v.Until = time.Time{}
	}
	return v
}

// stage is how a group stands.
type stage uint8

const (
	working stage = iota // something has to become healthy, or to go
	tried                // its canaries are healthy: it waits to be promoted
	done
)

func (f Facts) stands(name string) stage {
	want, g := f.Deployment.Groups[name], f.Groups[name]
	switch {
	case want.Canarying() && g.Tried >= want.DesiredCanaries:
		return tried
	case want.Canarying():
		return working
	case g.Old == 0 && g.Here >= g.Want && g.Healthy == g.Here:
		return done
	}
	return working
}

// timed reports a group whose progress has a deadline that counts now.
func (f Facts) timed(name string) bool {
	return f.Deployment.Groups[name].ProgressDeadline > 0 && !f.Now.IsZero()
}

// further is what is to be done when nothing has failed: canaries are promoted by themselves once those of all groups
// are healthy, if every group says so.
func (f Facts) further(names []string) Do {
	canaries := false
	itself, all := true, true
	for _, n := range names {
		want, s := f.Deployment.Groups[n], f.stands(n)
		all = all && s == done
		if want.Canarying() {
			canaries = true
			itself = itself && want.AutoPromote && s == tried
		}
	}
	switch {
	case canaries && itself:
		return Promote
	case all:
		return Succeed
	}
	return Await
}

// fail ends the deployment for the sake of a group. Where storage is what is waited for, the version before would wait
// for it as well: nothing is gone back to.
func (f Facts) fail(v Result, name, why string) Result {
	v.Do, v.Why = Fail, why
	v.Until = time.Time{}
	v.Revert = f.Deployment.Groups[name].AutoRevert
	if s := f.Groups[name].Storage; s != "" {
		v.Why, v.Revert = why+": "+s, false
	}
	return v
}

// remember brings the memory up to date: whatever became healthy, and whatever was decided, begins the time anew.
func (f Facts) remember() Memory {
	out := Memory{}
	for n := range f.Deployment.Groups { // each its own entry
		m := max(f.Groups[n].Mark, f.Deployment.ModifyIndex)
		out[n] = f.Memory[n]
		if out[n].Mark != m || out[n].Since.IsZero() {
			out[n] = Step{Mark: m, Since: f.Now}
		}
	}
	return out
}

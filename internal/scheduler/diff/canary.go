package diff

import (
	"slices"

	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
)

// What an update waits for other than the health of allocs.
const (
	HeldByCanaries = "the update waits for its canaries to be promoted"
	HeldByPause    = "the update is paused"
	HeldByFailure  = "the update stopped: its deployment has failed"
)

// held says why nothing of the version takes the place of an older one now; empty: it may. What is lost meanwhile is
// replaced by its like.
func (in *Input) held() string {
	d := in.Deployment
	if d == nil || in.Group == nil || d.Groups[in.Group.Name] == nil {
		return ""
	}
	switch {
	case d.Status == deployment.Failed:
		return HeldByFailure
	case d.Status == deployment.Paused:
		return HeldByPause
	case d.Groups[in.Group.Name].Canarying() && d.Active():
		return HeldByCanaries
	}
	return ""
}

// setApart takes the canaries out of the input: they fill no index before they are promoted.
func (in *Input) setApart() *Input {
	tried := *in
	tried.Allocs = nil
	var rest []*alloc.Alloc
	for _, a := range in.Allocs {
		if a.Canary {
			tried.Allocs = append(tried.Allocs, a)
		} else {
			rest = append(rest, a)
		}
	}
	in.Allocs = rest
	return &tried
}

// try sees to it that the group has its canaries, if it is to have any, and no others: those of another version, or of
// a deployment that is over, end.
func (in *Input) try(tried *Input, slots map[int]*slot, r *Result) {
	r.Canaries = in.wanted(slots)
	if in.hold = in.held(); in.hold == "" && r.Canaries > 0 {
		in.hold = HeldByCanaries // its deployment is about to begin
	}
	var mine []*alloc.Alloc
	for _, a := range tried.Allocs {
		ours := a.JobVersion == in.Job.Version && a.JobCreateIndex == in.Job.CreateIndex
		if ours && r.Canaries > 0 {
			mine = append(mine, a)
		}
	}
	others := *tried
	others.Allocs = slices.DeleteFunc(slices.Clone(tried.Allocs), func(a *alloc.Alloc) bool {
		return slices.Contains(mine, a)
	})
	tried.Allocs = mine
	over := others.sort(r)
	for _, i := range sortedKeys(over) {
		r.end(over[i], WhyNotPromoted)
	}
	now := tried.sort(r)
	for _, i := range sortedKeys(now) {
		if i >= r.Canaries {
			r.end(now[i], WhyNotPromoted)
		}
	}
	if d := in.Deployment; d != nil && d.Status == deployment.Paused {
		return
	}
	before, counted := len(r.Place), r.Changes.Place
	for i := range r.Canaries {
		if a := tried.fill(i, now[i], r); a != nil {
			r.Changes.Ignore++
		}
	}
	for i := range r.Place[before:] {
		r.Place[before+i].Canary = true
	}
	r.Changes.Place, r.Changes.Canary = counted, r.Changes.Place-counted
}

// wanted is how many canaries the group is to have: as long as its deployment keeps to them, and when it begins if it
// replaces anything.
func (in *Input) wanted(slots map[int]*slot) int {
	if d := in.Deployment; d != nil {
		if g := d.Groups[in.Group.Name]; g.Canarying() && d.Active() {
			return g.DesiredCanaries
		}
		return 0
	}
	if !in.Deploys || !in.Group.Deploys() || in.Group.Update.Canary == 0 {
		return 0
	}
	for _, s := range slots { // in any order: one is enough
		for _, a := range s.live {
			if a.JobVersion != in.Job.Version && in.Change(a) == Destructive {
				return in.Group.Update.Canary
			}
		}
	}
	return 0
}

// end stops the allocs of an index.
func (r *Result) end(s *slot, why string) {
	for _, a := range slices.Concat(s.live, s.migrating) {
		r.stop(a, why, false)
	}
	for _, a := range slices.Concat(s.lost, s.unknown) {
		r.stop(a, why, a.ClientStatus != alloc.ClientLost)
	}
}

// keepVersion lets what is placed while nothing may replace an older version be of the version of its predecessor. What
// has none waits for the promotion.
func (in *Input) keepVersion(r *Result, before int) {
	if in.hold == "" {
		return
	}
	kept := r.Place[:before]
	for _, p := range r.Place[before:] {
		switch {
		case p.Previous != nil && p.Previous.JobVersion != in.Job.Version:
			p.Former = true
		case p.Previous == nil && in.hold == HeldByCanaries:
			r.Changes.Place--
			r.Changes.Ignore++
			continue
		}
		kept = append(kept, p)
	}
	r.Place = kept
}

func (in *Input) whyDouble(a *alloc.Alloc) string {
	if a.JobVersion != in.Job.Version {
		return WhyUpdated
	}
	return WhyDuplicate
}

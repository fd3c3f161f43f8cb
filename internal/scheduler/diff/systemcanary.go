package diff

import (
	"cmp"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
)

// ours reports an alloc of the job's present version.
func (in *Input) ours(a *alloc.Alloc) bool {
	return a.JobVersion == in.Job.Version && a.JobCreateIndex == in.Job.CreateIndex
}

// wantedCanaries is how many nodes a version of a system job is to be tried on: as many as its deployment says, and
// when that begins the part of the nodes that the group says. What is only tried itself is replaced without a trial: so
// the way back from a version that failed on its canaries needs none.
func (in *SystemInput) wantedCanaries() int {
	if in.Group == nil {
		return 0
	}
	if d := in.Deployment; d != nil {
		if g := d.Groups[in.Group.Name]; g.Canarying() && d.Active() {
			return g.DesiredCanaries
		}
		return 0
	}
	if !in.Deploys || !in.Group.Deploys() || in.Group.Update.Canary == 0 {
		return 0
	}
	for _, a := range in.Allocs {
		if !a.Terminal() && !a.Canary && a.JobVersion != in.Job.Version && in.Change(a) == Destructive {
			return (len(in.Fits)*in.Group.Update.Canary + 99) / 100
		}
	}
	return 0
}

// tryOn has canaries take the place of older versions on as many nodes as are wanted, those first where another version
// was tried before, and returns the allocs that stay. A node on which a canary has failed is not made up for by
// another: the version does not work there.
func (in *SystemInput) tryOn(fits map[ids.Node]bool, kept []*alloc.Alloc, r *Result) []*alloc.Alloc {
	if d := in.Deployment; r.Canaries == 0 || d != nil && d.Status == deployment.Paused {
		return kept
	}
	tried := map[ids.Node]bool{}
	for _, a := range in.Allocs {
		if a.Canary && in.ours(a) && fits[a.Node] {
			tried[a.Node] = true
		}
	}
	var old []*alloc.Alloc
	for _, a := range kept {
		if fits[a.Node] && !tried[a.Node] && !in.ours(a) && in.Change(a) == Destructive {
			old = append(old, a)
		}
	}
	slices.SortStableFunc(old, func(a, b *alloc.Alloc) int {
		return cmp.Or(compareBool(b.Canary, a.Canary), cmp.Compare(a.Node, b.Node))
	})
	old = old[:min(max(r.Canaries-len(tried), 0), len(old))]
	for _, a := range old {
		r.Place = append(r.Place, Place{
			Index:    a.Index,
			Node:     a.Node,
			Previous: a,
			Ends:     WhyUpdated,
			Update:   true,
			Canary:   true,
		})
		r.Changes.Canary++
	}
	return slices.DeleteFunc(kept, func(a *alloc.Alloc) bool { return slices.Contains(old, a) })
}

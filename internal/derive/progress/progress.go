// Package progress owns how far deployments have come: a function of a deployment and of the allocs of its job, which
// servers apply at each look, so that no count is kept that could be wrong.
package progress

import (
	"cmp"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
)

// View is a deployment with how far it has come.
type View struct {
	Deployment *deployment.Deployment
	Groups     map[string]Group
}

// Group is how far one group has come. All that the deployment ever placed counts, so that of a group that lost allocs
// on the way more are placed than are desired.
type Group struct {
	Placed, Healthy, Unhealthy int
	Canaries                   []ids.Alloc // by creation; of a promoted group those that were promoted
	// By is when the next alloc must be healthy, by the servers' time; zero: nothing is waited for.
	By time.Time
}

// Ended is the deployment in a status that ends it, with how far it has come by then.
func Ended(d *deployment.Deployment, allocs []*alloc.Alloc, status, description string) *deployment.Deployment {
	out := d.With(status, description)
	out.Groups = make(map[string]*deployment.Group, len(d.Groups))
	for name, g := range Of(d, allocs).Groups { // each writes its own entry
		if was := d.Groups[name]; was != nil {
			now := *was
			now.Came = &deployment.Tally{Placed: g.Placed, Healthy: g.Healthy, Unhealthy: g.Unhealthy}
			out.Groups[name] = &now
		}
	}
	return out
}

// Of looks at all allocs of the deployment's job.
func Of(d *deployment.Deployment, allocs []*alloc.Alloc) *View {
	v := &View{Deployment: d, Groups: make(map[string]Group, len(d.Groups))}
	last := map[string]time.Time{}
	of := slices.DeleteFunc(slices.Clone(allocs), func(a *alloc.Alloc) bool { return a.Deployment != d.ID })
	slices.SortFunc(of, func(a, b *alloc.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	for _, a := range of {
		g := v.Groups[a.TaskGroup]
		g.Placed++
		switch {
		case a.Healthy():
			g.Healthy++
			if a.Health.At.After(last[a.TaskGroup]) {
				last[a.TaskGroup] = a.Health.At
			}
		case a.Unhealthy():
			g.Unhealthy++
		}
		if a.Canary {
			g.Canaries = append(g.Canaries, a.ID)
		}
		v.Groups[a.TaskGroup] = g
	}
	for name, want := range d.Groups { // each writes its own entry: the order does not show
		g := v.Groups[name]
		if c := want.Came; c != nil {
			g.Placed, g.Healthy = c.Placed, c.Healthy
			g.Unhealthy = c.Unhealthy
		}
		if want.Promoted {
			g.Canaries = want.Canaries
		}
		if want.ProgressDeadline > 0 {
			begun := time.Unix(0, d.CreateTime).UTC()
			if last[name].After(begun) {
				begun = last[name]
			}
			g.By = begun.Add(want.ProgressDeadline)
		}
		v.Groups[name] = g
	}
	return v
}

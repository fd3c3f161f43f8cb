// Package standing owns how the allocs of one version of a group stand, as numbers: what the decisions about
// deployments need of them, so that nobody reads every alloc of a job for each that becomes healthy. The state keeps it
// beside its table of allocs, from which it follows.
package standing

import (
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
)

// Of names what is counted together: allocs of one version of a group that one deployment placed or took over.
type Of struct {
	Namespace  ids.Namespace
	Job        ids.Job
	Create     uint64 // tells a purged and registered-again job apart
	Version    uint64
	Group      string
	Deployment ids.Deployment // empty: none did
}

// Counts are how they stand.
type Counts struct {
	Of
	Allocs  int // all of them, whether they run or not
	Live    int // that should run and are no canaries
	Healthy int // of those, healthy
	Tried   int // canaries that should run and are healthy
	Trying  int // canaries that should run
	Bad     int // not healthy, whether they run or not
	// Mark is the index of the newest decision that one of them is healthy. It never goes back: it is there to tell
	// that something has become healthy, and not how many are.
	Mark uint64
}

// Name is what an alloc is counted under.
func Name(a *alloc.Alloc) Of {
	return Of{a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion, a.TaskGroup, a.Deployment}
}

// One counts a single alloc.
func One(a *alloc.Alloc) Counts {
	c := Counts{Of: Name(a), Allocs: 1}
	if a.Unhealthy() {
		c.Bad = 1
	}
	if a.Healthy() {
		c.Mark = a.Health.Index
	}
	switch {
	case a.Terminal():
	case a.Canary && a.Healthy():
		c.Trying, c.Tried = 1, 1
	case a.Canary:
		c.Trying = 1
	case a.Healthy():
		c.Live, c.Healthy = 1, 1
	default:
		c.Live = 1
	}
	return c
}

// And adds what others of the same name are like.
func (c Counts) And(o Counts) Counts {
	c.Allocs += o.Allocs
	c.Live += o.Live
	c.Healthy += o.Healthy
	c.Tried += o.Tried
	c.Trying += o.Trying
	c.Bad += o.Bad
	c.Mark = max(c.Mark, o.Mark)
	return c
}

// Less takes away what one of them was like.
func (c Counts) Less(o Counts) Counts {
	c.Allocs -= o.Allocs
	c.Live -= o.Live
	c.Healthy -= o.Healthy
	c.Tried -= o.Tried
	c.Trying -= o.Trying
	c.Bad -= o.Bad
	return c
}

package scheduler

import (
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/diff"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
)

// Schedule looks at the evaluation's job and returns what is to be done and why no more is.
func Schedule(v View, e *eval.Eval, now time.Time) (Plan, Explanation) {
	r := newRun(v, e, now)
	groups := r.reconcile()
	for _, g := range groups {
		for _, s := range g.result.Stop {
			r.stop(s)
		}
	}
	for _, g := range groups {
		r.keep(g)
	}
	for _, g := range groups {
		r.apply(g)
	}
	r.tellBounds()
	r.tellPool()
	r.retries(groups)
	r.deploy(groups)
	r.conclude()
	return r.plan, r.out
}

// run is one call of Schedule.
type run struct {
	view       View
	eval       *eval.Eval
	now        time.Time
	job        *job.Job
	nodes      *candidates
	ledger     *filter.Ledger
	distinct   *filter.Distinct
	capacities map[ids.Node]*rank.Capacity
	stopped    map[ids.Alloc]bool
	staying    []*alloc.Alloc // of the job: those that go on, and those that were placed
	changes    map[versionKey]diff.Change
	beyond     []*job.Excess          // bounds that the job passes: nothing of it is placed
	deployment *deployment.Deployment // of the job's present version; nil: none
	begun      bool                   // allocs of the present version were placed before
	plan       Plan
	out        Explanation
}

type versionKey struct {
	create, version uint64
	group           string
}

// groupRun is one group with what it needs.
type groupRun struct {
	name   string
	group  *job.TaskGroup // nil: the job has it no more
	allocs []*alloc.Alloc
	result diff.Result
}

func newRun(v View, e *eval.Eval, now time.Time) *run {
	r := &run{
		view:       v,
		eval:       e,
		now:        now,
		job:        v.Jobs.Job(e.Namespace, e.Job),
		ledger:     filter.NewLedger(v.Volumes),
		capacities: map[ids.Node]*rank.Capacity{},
		stopped:    map[ids.Alloc]bool{},
		changes:    map[versionKey]diff.Change{},
	}
	r.out = Explanation{
		Changes: map[string]diff.Changes{},
		Failed:  map[string]*alloc.Metric{},
		Queued:  map[string]int{},
	}
	if r.job.Launches() {
		r.job = nil // its children are placed, it never is
	}
	if !r.job.Stopped() {
		r.deployment = v.Jobs.Deployment(r.deploymentID())
		if r.beyond = r.job.Excesses(); len(r.beyond) == 0 { // else no node is looked at
			r.nodes = newCandidates(v.Nodes, r.job, string(e.ID))
		}
		r.distinct = filter.NewDistinct(r.job.Region, v.Nodes.Node)
	}
	return r
}

// reconcile asks what every group needs: those of the job in its order, then those that it has no more.
func (r *run) reconcile() []*groupRun {
	byGroup := map[string][]*alloc.Alloc{}
	for _, a := range r.view.Jobs.JobAllocs(r.eval.Namespace, r.eval.Job) {
		byGroup[a.TaskGroup] = append(byGroup[a.TaskGroup], a)
		r.begun = r.begun || r.present(a)
	}
	var out []*groupRun
	if !r.job.Stopped() {
		for _, g := range r.job.TaskGroups {
			out = append(out, &groupRun{name: g.Name, group: g, allocs: byGroup[g.Name]})
			r.out.Queued[g.Name] = 0
			delete(byGroup, g.Name)
		}
	}
	var gone []string
	for name := range byGroup {
		gone = append(gone, name)
	}
	slices.Sort(gone)
	for _, name := range gone {
		out = append(out, &groupRun{name: name, allocs: byGroup[name]})
	}
	for _, g := range out {
		g.result = r.reconcileGroup(g)
		r.out.Changes[g.name] = g.result.Changes
		r.out.Rolling = r.out.Rolling || g.result.Rolling
		if g.result.Rolling && r.out.Halted == nil {
			r.out.Halted = g.result.Halted
		}
		if g.result.Rolling && r.out.Held == "" {
			r.out.Held = g.result.Held
		}
		r.out.Leaving = r.out.Leaving || g.result.Leaving
	}
	return out
}

func (r *run) reconcileGroup(g *groupRun) diff.Result {
	in := diff.Input{
		Job:    r.job,
		Group:  g.group,
		Allocs: g.allocs,
		Now:    r.now,
		Down: func(id ids.Node) bool {
			n := r.view.Nodes.Node(id)
			return n == nil || n.Status == node.StatusDown
		},
		Change:     func(a *alloc.Alloc) diff.Change { return r.change(a) },
		SharedUse:  func(a *alloc.Alloc) bool { return r.sharedUse(a) },
		Deploys:    r.view.Deployments,
		Deployment: r.deployment,
	}
	if g.group != nil && len(r.beyond) > 0 {
		return diff.Freeze(in)
	}
	if g.group == nil || !job.OnEveryNode(r.job.Type) {
		return diff.Reconcile(in)
	}
	return diff.ReconcileSystem(r.systemInput(in, g))
}

// change tells what the job's present version means to an alloc. Where only the choice of nodes changed, the alloc
// stays if its node would still be chosen.
func (r *run) change(a *alloc.Alloc) diff.Change {
	key := versionKey{a.JobCreateIndex, a.JobVersion, a.TaskGroup}
	c, ok := r.changes[key]
	if !ok {
		old := r.view.Jobs.JobVersion(a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)
		switch {
		case old == nil: // its version is forgotten: nothing proves that it is the same
			c = diff.Destructive
		default:
			c = diff.Compare(old, r.job, a.TaskGroup)
		}
		r.changes[key] = c
	}
	if c == diff.InPlace && !a.Terminal() && !r.stillFits(a) {
		return diff.Destructive
	}
	return c
}

func (r *run) stillFits(a *alloc.Alloc) bool {
	n := r.view.Nodes.Node(a.Node)
	g := r.job.Group(a.TaskGroup)
	if n == nil || g == nil {
		return false
	}
	req := &filter.Request{Job: r.job, Group: g, Index: a.Index}
	place := filter.Prepare(req, &filter.Pool{}, &filter.Datacenters{}, filter.NewConstraints(r.job.Region))
	_, key := place.Check(n)
	return key == ""
}

func (r *run) sharedUse(a *alloc.Alloc) bool {
	old := r.view.Jobs.JobVersion(a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)
	return old != nil && diff.SharedUseChanged(old, r.job, a.TaskGroup)
}

// stop ends an alloc whatever else the plan does.
func (r *run) stop(s diff.Stop) {
	r.plan.Stop = append(r.plan.Stop, newStop(s.Alloc, s.Why, s.Lost))
	r.stopped[s.Alloc.ID] = true
	r.ledger.Stop(s.Alloc.ID)
}

func newStop(a *alloc.Alloc, why string, lost bool) Stop {
	return Stop{Alloc: a.ID, Node: a.Node, Description: why, Lost: lost}
}

// keep counts the allocs of a group that stay, for what keeps allocs apart.
func (r *run) keep(g *groupRun) {
	if r.distinct == nil {
		return
	}
	for _, a := range g.allocs {
		if !a.Terminal() && !r.stopped[a.ID] {
			r.distinct.Count(a)
			r.staying = append(r.staying, a)
		}
	}
}

// apply turns what a group needs into the plan.
func (r *run) apply(g *groupRun) {
	for _, a := range g.result.InPlace {
		n := *a
		n.JobVersion, n.Eval = r.job.Version, r.eval.ID
		r.plan.InPlace = append(r.plan.InPlace, &n)
	}
	if len(g.result.Place) == 0 || g.group == nil {
		return
	}
	wants := r.placeFormer(g)
	p := newPlacer(r, g)
	slices.SortStableFunc(wants, func(a, b diff.Place) int { // what is missing comes before what is updated
		switch {
		case a.Update == b.Update:
			return 0
		case a.Update:
			return 1
		}
		return -1
	})
	first := slices.IndexFunc(wants, func(w diff.Place) bool { return w.Together })
	if first < 0 {
		first = len(wants)
	}
	for i, w := range wants[:first] {
		if len(r.plan.Place) >= job.MaxPlacements {
			r.putOff(g.name, len(wants)-i)
			return
		}
		p.place(w)
	}
	p.placeTogether(wants[first:]) // all or none, whatever the number: they share a volume
}

// capacity returns what a node has left for the plan.
func (r *run) capacity(n *node.Node) *rank.Capacity {
	capacity := r.capacities[n.ID]
	if capacity == nil {
		capacity = rank.NewCapacity(n, r.view.Nodes.NodeAllocs(n.ID),
			func(id ids.Alloc) bool { return r.stopped[id] },
			func(a *alloc.Alloc) bool { return a.Job == r.job.ID && a.Namespace == r.job.Namespace })
		r.capacities[n.ID] = capacity
	}
	return capacity
}

// release counts an alloc as stopped while its successor is being placed; restore takes that back.
func (r *run) release(a *alloc.Alloc) {
	r.stopped[a.ID] = true
	r.ledger.Stop(a.ID)
	if a.Terminal() {
		return // it takes nothing
	}
	if capacity := r.capacities[a.Node]; capacity != nil {
		capacity.Release(a)
	}
	r.distinct.Uncount(a)
}

func (r *run) restore(a *alloc.Alloc) {
	delete(r.stopped, a.ID)
	r.ledger.Unstop(a.ID)
	if a.Terminal() {
		return
	}
	if capacity := r.capacities[a.Node]; capacity != nil {
		capacity.Restore(a)
	}
	r.distinct.Count(a)
}

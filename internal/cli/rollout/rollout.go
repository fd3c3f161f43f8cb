// Package rollout owns how a job stands against what is wanted of it: which allocations are well, which are to be
// replaced or to go, what is in trouble, and what is waited for. It is pure: what the agent says goes in, an outcome
// and words come out, so that following a job and looking at it say the same. Only packages of the command line import
// it.
package rollout

import (
	"cmp"
	"slices"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
)

// Outcome is what it comes to.
type Outcome uint8

// Outcomes.
const (
	Going    Outcome = iota // something is still to happen by itself
	Done                    // everything that is wanted is there and well, or has completed
	Failed                  // something is not well, and what was to follow does not
	Unplaced                // something has no place
	Short                   // something is missing, and nothing is on its way
)

// Rollout is how a job stands.
type Rollout struct {
	Outcome  Outcome
	Groups   []*Group
	Troubles []Trouble
	// Unplaced are the blocked evaluations that say what has no place, and why.
	Unplaced []*api.Evaluation

	job *api.Job
}

// Group is how one group of the job stands.
type Group struct {
	Name   string
	Wanted int // allocations
	// Fresh are the allocations of the job's present version, or such that it leaves as they are; Old are to be
	// replaced; Leaving are to go and have not ended.
	Fresh, Old, Leaving []*api.AllocationListStub
	// Of the fresh ones: how many are healthy, not decided, not healthy; of a batch job: complete, running, failed.
	Healthy, Open, Bad int

	batch  bool
	manual bool // nobody but a person decides about health
	// checked: an allocation is healthy only while checks of its services pass, too.
	checked bool
	least   time.Duration
}

// Assess judges what an agent says of a job. Evaluations that are over may be among the others.
func Assess(p *api.JobRollout, now time.Time) *Rollout {
	r := &Rollout{job: p.Job}
	for _, g := range p.Job.TaskGroups {
		r.Groups = append(r.Groups, assessGroup(p.Job, g, p.Allocations))
	}
	r.Groups = append(r.Groups, gone(p)...)
	evals := newEvals(p.Evaluations)
	r.Unplaced = evals.unplaced
	for _, g := range r.Groups {
		for i, a := range slices.Concat(g.Fresh, g.Old) {
			if t, ok := troubleOf(g, a, evals, now); ok {
				t.Final = t.Final && i < len(g.Fresh) // what is to be replaced decides nothing
				r.Troubles = append(r.Troubles, t)
			}
		}
	}
	slices.SortStableFunc(r.Troubles, func(a, b Trouble) int { // what decides comes first
		return -boolCompare(a.Final, b.Final)
	})
	r.Outcome = r.judge(evals)
	return r
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Batch reports a job whose allocations come to an end, so that nothing judges their health.
func (r *Rollout) Batch() bool { return isBatch(r.job) }

func hasChecks(g *api.TaskGroup) bool {
	has := func(s *api.Service) bool { return len(s.Checks) > 0 }
	return slices.ContainsFunc(g.Services, has) ||
		slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return slices.ContainsFunc(t.Services, has) })
}

func assessGroup(job *api.Job, g *api.TaskGroup, all []*api.AllocationListStub) *Group {
	out := &Group{Name: g.Name, Wanted: kit.Value(g.Count), batch: isBatch(job)}
	if u := g.Update; u != nil {
		out.manual, out.least = kit.Value(u.HealthCheck) == "manual", kit.Value(u.MinHealthyTime)
		out.checked = kit.Value(u.HealthCheck) == "checks" && hasChecks(g)
	}
	for _, a := range all {
		if a.TaskGroup == g.Name {
			out.file(a, kit.Value(job.Version))
		}
	}
	if onEveryNode(job) || kit.Value(job.Stop) {
		out.Wanted = len(out.Fresh) + len(out.Old) // one for each node that fits, which the servers know
	}
	byName := func(a, b *api.AllocationListStub) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NodeName, b.NodeName),
			cmp.Compare(a.CreateIndex, b.CreateIndex))
	}
	slices.SortFunc(out.Fresh, byName)
	slices.SortFunc(out.Old, byName)
	slices.SortFunc(out.Leaving, byName)
	return out
}

func onEveryNode(job *api.Job) bool {
	t := kit.Value(job.Type)
	return t == api.JobTypeSystem || t == api.JobTypeSysBatch
}

func isBatch(job *api.Job) bool {
	t := kit.Value(job.Type)
	return t == api.JobTypeBatch || t == api.JobTypeSysBatch
}

// file puts an allocation where it belongs.
func (g *Group) file(a *api.AllocationListStub, version uint64) {
	switch {
	case a.DesiredStatus != api.AllocDesiredStatusRun:
		if !ended(a) {
			g.Leaving = append(g.Leaving, a)
		}
		return
	case a.JobVersion < version && !ended(a):
		g.Old = append(g.Old, a)
		return
	}
	g.Fresh = append(g.Fresh, a)
	switch {
	case g.batch && a.ClientStatus == api.AllocClientStatusComplete, !g.batch && Health(a) == Healthy:
		g.Healthy++
	case ended(a), Health(a) == Unhealthy:
		g.Bad++
	default:
		g.Open++
	}
}

func ended(a *api.AllocationListStub) bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}

// gone are groups that the job has no more, with what is left of them.
func gone(p *api.JobRollout) []*Group {
	var out []*Group
	for _, a := range p.Allocations {
		known := slices.ContainsFunc(p.Job.TaskGroups, func(g *api.TaskGroup) bool { return g.Name == a.TaskGroup })
		if known || ended(a) {
			continue
		}
		i := slices.IndexFunc(out, func(g *Group) bool { return g.Name == a.TaskGroup })
		if i < 0 {
			i, out = len(out), append(out, &Group{Name: a.TaskGroup})
		}
		out[i].Leaving = append(out[i].Leaving, a)
	}
	return out
}

// evals are the evaluations of a job by what they mean for it.
type evals struct {
	open     bool // one is to run now
	waiting  bool // one waits for the end of something
	unplaced []*api.Evaluation
	byID     map[string]*api.Evaluation
}

func newEvals(list []*api.Evaluation) evals {
	out := evals{byID: map[string]*api.Evaluation{}}
	for _, e := range list {
		out.byID[e.ID] = e
		switch {
		case e.Status == api.EvalStatusPending && !retries(e):
			out.open = true
		case e.Status == api.EvalStatusBlocked && len(e.FailedTGAllocs) > 0:
			out.unplaced = append(out.unplaced, e)
		case e.Status == api.EvalStatusBlocked:
			out.waiting = true
		}
	}
	return out
}

// retries reports an evaluation that replaces failed allocations after their pause.
func retries(e *api.Evaluation) bool {
	return e.Status == api.EvalStatusPending && e.WaitUntil != nil && e.TriggeredBy == "alloc-failure"
}

// judge comes to the outcome. What is under way is waited for before anything is judged: the scheduler has not decided.
func (r *Rollout) judge(e evals) Outcome {
	sum := Group{}
	short := 0
	late := 0
	manual := false
	for _, g := range r.Groups {
		sum.Open, sum.Bad = sum.Open+g.Open, sum.Bad+g.Bad
		if g.manual && !slices.ContainsFunc(g.Fresh, func(a *api.AllocationListStub) bool { return !runs(a) }) {
			sum.Open -= g.Open // they run, and nobody will say more
			manual = manual || len(g.Old) > 0
		}
		late += len(g.Old) + len(g.Leaving)
		short += max(0, g.Wanted-len(g.Fresh)-len(g.Old))
	}
	retried := slices.ContainsFunc(r.Troubles, func(t Trouble) bool { return t.again })
	switch {
	case e.open:
		return Going
	case isBatch(r.job) && (retried || sum.Open > 0):
		return Going // the others are let to their end
	case isBatch(r.job) && len(e.unplaced) > 0 && !slices.ContainsFunc(e.unplaced, nowhere):
		return Unplaced
	case sum.Bad > 0:
		return Failed
	case len(e.unplaced) > 0:
		return Unplaced
	case manual && sum.Open == 0:
		return Failed
	case e.waiting || late > 0 || sum.Open > 0:
		return Going
	case short > 0:
		return Short
	}
	return Done
}

// runs reports an allocation whose tasks run as they should, as far as its statuses tell.
func runs(a *api.AllocationListStub) bool {
	return a.ClientStatus == api.AllocClientStatusRunning && a.Phase() == api.AllocPhaseRunning
}

package scheduler

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/scheduler/diff"
)

// deploymentID is that of the deployment of the job's present version.
func (r *run) deploymentID() ids.Deployment {
	return deployment.IDOf(r.job.Namespace, r.job.ID, r.job.CreateIndex, r.job.Version)
}

// present reports an alloc of the job's present version.
func (r *run) present(a *alloc.Alloc) bool {
	return !r.job.Stopped() && a.JobCreateIndex == r.job.CreateIndex && a.JobVersion == r.job.Version
}

// deploy begins the deployment of a version with the first placement of it, and gives what is placed to the deployment
// that is under way. A version that ran before there were deployments has none.
func (r *run) deploy(groups []*groupRun) {
	if !r.view.Deployments || r.job.Stopped() {
		return
	}
	d := r.deployment
	if d == nil && !r.begun {
		if d = r.begin(groups); d != nil {
			r.plan.Deployment = d
		}
	}
	if !d.Active() {
		return
	}
	r.deployment = d
	for _, p := range r.plan.Place {
		if d.Groups[p.Alloc.TaskGroup] != nil && r.present(p.Alloc) {
			p.Alloc.Deployment = d.ID
		}
	}
	for _, a := range r.plan.InPlace {
		if d.Groups[a.TaskGroup] != nil {
			a.Deployment = d.ID
		}
	}
}

// begin makes the record of a deployment, if the plan places or takes over anything that belongs to one.
func (r *run) begin(groups []*groupRun) *deployment.Deployment {
	d := &deployment.Deployment{
		ID:             r.deploymentID(),
		Namespace:      r.job.Namespace,
		Job:            r.job.ID,
		JobVersion:     r.job.Version,
		JobCreateIndex: r.job.CreateIndex,
		JobModifyIndex: r.job.JobModifyIndex,
		Groups:         map[string]*deployment.Group{},
		Status:         deployment.Running,
		EvalPriority:   r.eval.Priority,
	}
	for _, g := range groups {
		if g.group == nil || !g.group.Deploys() {
			continue
		}
		u := g.group.Update
		of := &deployment.Group{
			AutoRevert:       u.AutoRevert,
			AutoPromote:      u.AutoPromote,
			ProgressDeadline: u.ProgressDeadline,
			DesiredTotal:     g.group.Count,
			DesiredCanaries:  g.result.Canaries,
		}
		if r.job.Type == job.TypeSystem {
			of.DesiredTotal = min(g.group.Count, 1) * g.result.Fits
		}
		d.Groups[g.name] = of
	}
	d.StatusDescription = d.Describe()
	belongs := func(a *alloc.Alloc) bool { return d.Groups[a.TaskGroup] != nil && r.present(a) }
	placed := slices.ContainsFunc(r.plan.Place, func(p *Placement) bool { return belongs(p.Alloc) })
	if !placed && !slices.ContainsFunc(r.plan.InPlace, belongs) {
		return nil
	}
	return d
}

// placeFormer places what is of an older version of the job, by that version, and returns the rest. A version that is
// forgotten is the present one's to replace.
func (r *run) placeFormer(g *groupRun) []diff.Place {
	var rest []diff.Place
	of := map[uint64][]diff.Place{}
	for _, w := range g.result.Place {
		if w.Former && r.version(w.Previous) != nil {
			v := w.Previous.JobVersion
			of[v] = append(of[v], w)
			continue
		}
		rest = append(rest, w)
	}
	versions := make([]uint64, 0, len(of))
	for v := range of {
		versions = append(versions, v)
	}
	slices.Sort(versions)
	for _, v := range versions {
		r.placeBy(r.version(of[v][0].Previous), g, of[v])
	}
	return rest
}

// version is the job as an alloc runs it, or nil: it is forgotten, or had no such group.
func (r *run) version(a *alloc.Alloc) *job.Job {
	j := r.view.Jobs.JobVersion(a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return nil
	}
	return j
}

// placeBy places allocs as another version of the job asks for.
func (r *run) placeBy(j *job.Job, g *groupRun, wants []diff.Place) {
	former := *r // what is counted is shared; what is planned is taken over
	former.job = j
	former.nodes = newCandidates(r.view.Nodes, j, string(r.eval.ID))
	as := &groupRun{name: g.name, group: j.Group(g.name), allocs: g.allocs, result: diff.Result{Place: wants}}
	p := newPlacer(&former, as)
	for _, w := range wants {
		p.place(w)
	}
	r.plan = former.plan
	r.out = former.out
	r.staying = former.staying
}

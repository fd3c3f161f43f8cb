// Package deploying owns what commands do to deployments within their own step: begin one with the first placement of a
// version, end it with the alloc that makes it complete, with a newer version or with its job. So a deployment costs no
// entry of the log of its own while all goes well. Packages of the server half may import it.
package deploying

import (
	"cmp"
	"slices"
	"strconv"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/derive/standing"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Active is the deployment of a job that is not over, or nil. There is at most one.
func Active(s *state.Snap, w *state.Watch, ns ids.Namespace, id ids.Job) *deployment.Deployment {
	for d := range s.DeploymentsByJob(w, ns, id) {
		if d.Active() {
			return d
		}
	}
	return nil
}

// Begin records a deployment that a plan makes. Where its job has moved on meanwhile it is over at once, so that what
// it places has a deployment to belong to.
func Begin(tx *state.Tx, d *deployment.Deployment) {
	if tx.Deployment(nil, d.ID) != nil {
		return
	}
	switch j := tx.Job(nil, d.Namespace, d.Job); {
	case j.Stopped():
		d = d.With(deployment.Cancelled, deployment.WhyStopped)
	case j.CreateIndex != d.JobCreateIndex || j.Version != d.JobVersion:
		d = d.With(deployment.Cancelled, deployment.WhyNewer)
	}
	tx.PutDeployment(d)
}

// Cancel ends the deployment of a job that is under way.
func Cancel(tx *state.Tx, ns ids.Namespace, id ids.Job, why string) {
	if d := Active(&tx.Snap, nil, ns, id); d != nil {
		End(tx, d, deployment.Cancelled, why)
	}
}

// End puts a deployment into a status that ends it, with how far it has come.
func End(tx *state.Tx, d *deployment.Deployment, status, description string) {
	allocs := slices.Collect(tx.AllocsByJob(nil, d.Namespace, d.Job))
	tx.PutDeployment(progress.Ended(d, allocs, status, description))
}

// Settle does what follows at once from how a job's allocs stand: its deployment succeeds, or promotes its canaries by
// itself. It reports whether the job is to be evaluated, because it can go on.
func Settle(tx *state.Tx, ns ids.Namespace, id ids.Job) bool {
	d := Active(&tx.Snap, nil, ns, id)
	if d == nil {
		return false
	}
	switch deployment.Next(FactsOf(&tx.Snap, d)).Do {
	case deployment.Succeed:
		Succeed(tx, d)
	case deployment.Promote:
		Promote(tx, d, d.Names())
		return true
	}
	return false
}

// Succeed ends a deployment well: its version is one to go back to.
func Succeed(tx *state.Tx, d *deployment.Deployment) {
	End(tx, d, deployment.Successful, deployment.WhySuccessful)
	SetStable(tx, d.Namespace, d.Job, d.JobCreateIndex, d.JobVersion, true)
}

// SetStable notes whether a version of a job is one to go back to, and reports whether there is such a version.
func SetStable(tx *state.Tx, ns ids.Namespace, id ids.Job, create, version uint64, stable bool) bool {
	v := tx.JobVersion(nil, ns, id, create, version)
	if v == nil {
		return false
	}
	if v.Stable != stable {
		n := *v
		n.Stable = stable
		tx.PutJobVersion(&n)
	}
	return true
}

// Promote has the canaries of groups take the place of what they were tried against.
func Promote(tx *state.Tx, d *deployment.Deployment, groups []string) {
	n := *d
	n.Groups = make(map[string]*deployment.Group, len(d.Groups))
	for name, g := range d.Groups { // each its own entry
		c := *g
		n.Groups[name] = &c
	}
	for _, a := range slices.SortedFunc(tx.AllocsByJob(nil, d.Namespace, d.Job), byCreation) {
		g := n.Groups[a.TaskGroup]
		if a.Deployment != d.ID || !a.Canary || !g.Canarying() || !slices.Contains(groups, a.TaskGroup) {
			continue
		}
		g.Canaries = append(g.Canaries, a.ID)
		c := *a
		c.Canary = false
		c.AllocModifyIndex, c.ModifyTime = tx.Stamp().Index, tx.Stamp().Time.UnixNano()
		tx.PutAlloc(&c)
	}
	for _, name := range groups {
		if g := n.Groups[name]; g.Canarying() {
			g.Promoted = true
		}
	}
	if n.Status == deployment.Running {
		n.StatusDescription = n.Describe()
	}
	tx.PutDeployment(&n)
}

func byCreation(a, b *alloc.Alloc) int {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
}

// FactsOf are how the groups of a deployment stand, by what is counted of its job's allocs. Storage is not looked at.
func FactsOf(s *state.Snap, d *deployment.Deployment) deployment.Facts {
	f := deployment.Facts{Deployment: d, Groups: map[string]deployment.GroupFacts{}}
	v := s.JobVersion(nil, d.Namespace, d.Job, d.JobCreateIndex, d.JobVersion)
	for name, want := range d.Groups { // each its own entry
		if g := (deployment.GroupFacts{Want: want.DesiredTotal}); v != nil {
			if v.Type == job.TypeSystem {
				g.Want = 0
			}
			f.Groups[name] = g
		}
	}
	for c := range s.Standings(d.Namespace, d.Job) {
		if g, ok := f.Groups[c.Group]; ok {
			f.Groups[c.Group] = add(g, d, c)
		}
	}
	return f
}

// add brings allocs that are counted together into the facts of their group.
func add(g deployment.GroupFacts, d *deployment.Deployment, c *standing.Counts) deployment.GroupFacts {
	if c.Deployment == d.ID {
		g.Bad += c.Bad
		g.Mark = max(g.Mark, c.Mark)
	}
	if c.Create != d.JobCreateIndex || c.Version != d.JobVersion {
		g.Old += c.Live + c.Trying
		return g
	}
	g.Here += c.Live
	g.Healthy += c.Healthy
	g.Tried += c.Tried
	return g
}

// Explain adds to facts for which storage the groups wait, which every alloc and evaluation of the job is read for: it
// matters to a deployment that fails.
func Explain(s *state.Snap, f deployment.Facts) {
	d := f.Deployment
	v := s.JobVersion(nil, d.Namespace, d.Job, d.JobCreateIndex, d.JobVersion)
	for _, a := range slices.SortedFunc(s.AllocsByJob(nil, d.Namespace, d.Job), byCreation) {
		g, ok := f.Groups[a.TaskGroup]
		if !ok || v == nil || a.Deployment != d.ID || a.ServerTerminal() {
			continue
		}
		if why := alloc.StorageTrouble(a, v.Group(a.TaskGroup)); why != "" {
			g.Storage = why
			f.Groups[a.TaskGroup] = g
		}
	}
	blocked(s, f)
}

// Behind reports whether allocs of a group that should run are of an older version than the job's present one.
func Behind(s *state.Snap, j *job.Job, group string) bool {
	for c := range s.Standings(j.Namespace, j.ID) {
		if c.Group == group && c.Live+c.Trying > 0 && (c.Version != j.Version || c.Create != j.CreateIndex) {
			return true
		}
	}
	return false
}

// blocked adds what the evaluations of the job that wait say of groups without a place.
func blocked(s *state.Snap, f deployment.Facts) {
	d := f.Deployment
	for e := range s.EvalsByJob(nil, d.Namespace, d.Job) {
		if e.Terminal() {
			continue
		}
		for name, m := range e.FailedTGAllocs { // each its own entry
			if g, ok := f.Groups[name]; ok && g.Storage == "" && m.Storage != "" {
				g.Storage = m.Storage
				f.Groups[name] = g
			}
		}
	}
}

// Target is the version to which a deployment that fails goes back: the newest before it that is stable, or nil and why
// there is none. One that says the same would fail the same: nothing is gone back to, and no two versions take turns.
func Target(s *state.Snap, d *deployment.Deployment, same func(a, b *job.Job) bool) (*job.Job, string) {
	now := s.Job(nil, d.Namespace, d.Job)
	if now.Stopped() || now.CreateIndex != d.JobCreateIndex || now.Version != d.JobVersion {
		return nil, "the job has moved on"
	}
	for _, v := range s.JobVersions(nil, d.Namespace, d.Job) { // newest first
		switch {
		case v.Version >= d.JobVersion || !v.Stable || v.Stop:
		case same(v, now):
			return nil, "the newest stable version, " + strconv.FormatUint(v.Version, 10) + ", says the same"
		default:
			return v, ""
		}
	}
	return nil, "no version before it is stable"
}

package views

import (
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// JobView derives what people see of a job from its allocs and evaluations, and the index of that view.
func JobView(s *state.Snap, w *state.Watch, j *job.Job) (*wire.JobView, uint64) {
	v := &wire.JobView{
		Job:           j,
		Summary:       map[string]wire.GroupSummary{},
		SummaryCreate: j.CreateIndex,
		SummaryModify: j.ModifyIndex,
	}
	for _, g := range j.TaskGroups {
		v.Summary[g.Name] = wire.GroupSummary{}
	}
	live, index := deploying(s, w, j)
	any := false
	index = max(index, s.ReadIndex(state.Allocs, j.ModifyIndex), s.ReadIndex(state.Evals))
	for a := range s.AllocsByJob(w, j.Namespace, j.ID) {
		index = max(index, a.ModifyIndex)
		if a.JobCreateIndex != j.CreateIndex {
			continue
		}
		any = true
		live = live || !a.ClientTerminal()
		v.SummaryModify = max(v.SummaryModify, a.ModifyIndex)
		countAlloc(v.Summary, a)
	}
	pending, newest := false, (*eval.Eval)(nil)
	for e := range s.EvalsByJob(w, j.Namespace, j.ID) {
		index = max(index, e.ModifyIndex)
		any = true
		pending = pending || !e.Terminal()
		if e.QueuedAllocations != nil && (newest == nil || e.ModifyIndex > newest.ModifyIndex) {
			newest = e
		}
	}
	countQueued(v, newest)
	if j.Launches() {
		index = max(index, countChildren(s, w, j, v))
	}
	v.Status, v.StatusDescription = statusOf(j, live, pending, any)
	return v, index
}

// countChildren counts what a job has launched, and returns the index of that.
func countChildren(s *state.Snap, w *state.Watch, parent *job.Job, v *wire.JobView) (index uint64) {
	for j := range s.Children(w, parent) {
		child, at := JobView(s, w, j)
		index = max(index, at)
		v.SummaryModify = max(v.SummaryModify, child.SummaryModify)
		switch child.Status {
		case job.StatusPending:
			v.Children.Pending++
		case job.StatusRunning:
			v.Children.Running++
		default:
			v.Children.Dead++
		}
	}
	return index
}

func countAlloc(out map[string]wire.GroupSummary, a *alloc.Alloc) {
	g := out[a.TaskGroup]
	switch a.ClientStatus {
	case alloc.ClientPending:
		g.Starting++
	case alloc.ClientRunning:
		g.Running++
	case alloc.ClientComplete:
		g.Complete++
	case alloc.ClientFailed:
		g.Failed++
	case alloc.ClientLost:
		g.Lost++
	case alloc.ClientUnknown:
		g.Unknown++
	}
	out[a.TaskGroup] = g
}

func countQueued(v *wire.JobView, e *eval.Eval) {
	if e == nil || v.Job.Stop {
		return
	}
	v.SummaryModify = max(v.SummaryModify, e.ModifyIndex)
	for name, n := range e.QueuedAllocations { // each key is written on its own: the order does not show
		if g, ok := v.Summary[name]; ok {
			g.Queued = n
			v.Summary[name] = g
		}
	}
}

func statusOf(j *job.Job, live, pending, any bool) (string, string) {
	switch {
	case live, j.Launches() && !j.Stop:
		return job.StatusRunning, ""
	case j.Launches():
		return job.StatusDead, ""
	case j.Type == job.TypeSystem && !j.Stop:
		return job.StatusRunning, ""
	case pending:
		return job.StatusPending, ""
	case j.Stop, any:
		return job.StatusDead, ""
	}
	return job.StatusPending, ""
}

// deploying reports whether a deployment of a job is under way, and the index of that.
func deploying(s *state.Snap, w *state.Watch, j *job.Job) (bool, uint64) {
	under, index := false, s.ReadIndex(state.Deployments)
	for d := range s.DeploymentsByJob(w, j.Namespace, j.ID) {
		under = under || d.Active() && d.JobCreateIndex == j.CreateIndex
		index = max(index, d.ModifyIndex)
	}
	return under, index
}

// Package collection owns the command that forgets what is over: evaluations, allocs, jobs and nodes that nothing names
// any more. Package server/gc proposes it.
package collection

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/departure"
	"berth/internal/server/state"
	"berth/internal/server/versions"
)

func init() { fsm.Register[Collect]("collect", 1, "server/gc") }

// JobName names a job in its namespace.
type JobName struct {
	Namespace ids.Namespace
	Job       ids.Job
}

// Collect forgets what is over. Everything is checked again here: what came back to life, or what a claim, an
// attachment or an inventory names, stays.
type Collect struct {
	Evals  []ids.Eval
	Allocs []ids.Alloc
	Jobs   []JobName
	Nodes  []ids.Node
}

// Releases lets it through when the disk is nearly full, because it frees space.
func (c *Collect) Releases() bool { return true }

// Collected counts what was forgotten.
type Collected struct{ Evals, Allocs, Jobs, Nodes int }

// Apply returns a Collected.
func (c *Collect) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	var out Collected
	var order []JobName // whose versions may have lost their last user
	for _, id := range c.Allocs {
		if a := tx.Alloc(nil, id); a != nil && AllocOver(&tx.Snap, a) {
			tx.DeleteAlloc(id)
			out.Allocs++
			if k := (JobName{a.Namespace, a.Job}); !slices.Contains(order, k) {
				order = append(order, k)
			}
		}
	}
	for _, id := range c.Evals {
		if e := tx.Eval(nil, id); e != nil && e.Terminal() && tx.DeleteEval(id) {
			out.Evals++
		}
	}
	for _, k := range c.Jobs {
		if JobOver(&tx.Snap, k) {
			forget(tx, k, &out)
			order = append(order, k)
		}
	}
	for _, k := range order {
		versions.DropUnused(tx, k.Namespace, k.Job)
	}
	for _, id := range c.Nodes {
		if NodeOver(&tx.Snap, id) {
			departure.Forget(tx, st, id)
			out.Nodes++
		}
	}
	return out, nil
}

// ForgetNamespace removes what is left of the jobs of a namespace, all of which are over.
func ForgetNamespace(tx *state.Tx, ns ids.Namespace) {
	var out Collected
	for _, j := range slices.Collect(tx.Jobs(nil, ns, "")) {
		k := JobName{Namespace: ns, Job: j.ID}
		forget(tx, k, &out)
		versions.DropUnused(tx, k.Namespace, k.Job)
	}
	for _, a := range slices.Collect(tx.Allocs(nil, "")) { // of jobs that were purged
		if a.Namespace == ns {
			tx.DeleteAlloc(a.ID)
			versions.DropUnused(tx, ns, a.Job)
		}
	}
	for _, e := range slices.Collect(tx.Evals(nil, "")) {
		if e.Namespace == ns {
			tx.DeleteEval(e.ID)
		}
	}
}

// forget removes a job with all that is left of it.
func forget(tx *state.Tx, k JobName, out *Collected) {
	for _, a := range slices.Collect(tx.AllocsByJob(nil, k.Namespace, k.Job)) {
		tx.DeleteAlloc(a.ID)
		out.Allocs++
	}
	for _, e := range slices.Collect(tx.EvalsByJob(nil, k.Namespace, k.Job)) {
		tx.DeleteEval(e.ID)
		out.Evals++
	}
	tx.DeleteSubmissions(k.Namespace, k.Job, func(uint64) bool { return false })
	tx.DeleteJob(k.Namespace, k.Job)
	out.Jobs++
}

// AllocOver reports whether nothing needs an alloc any more: its end is known, no claim names it, and its job does not
// count on it (an alloc that ended on its own is what tells a live job not to run it again, or how often it failed).
func AllocOver(s *state.Snap, a *alloc.Alloc) bool {
	if !Ended(s, a) {
		return false
	}
	j := s.Job(nil, a.Namespace, a.Job)
	if j.Stopped() || j.CreateIndex != a.JobCreateIndex || a.NextAlloc != "" {
		return true
	}
	return a.ServerTerminal() && !a.OutcomeUnknown() // which holds its job back until a person says so
}

// Ended reports whether no claim names an alloc, and its processes are gone for certain: its node said so, with a
// record of it or without, or is unknown.
func Ended(s *state.Snap, a *alloc.Alloc) bool {
	for range s.ClaimsByAlloc(nil, a.ID) {
		return false
	}
	if a.ProcessesGone() || a.OutcomeUnknown() {
		return true
	}
	return a.ClientStatus == alloc.ClientLost && s.Node(nil, a.Node) == nil
}

// JobOver reports whether a job that was stopped, or a batch job that has run, has nothing left that goes on.
func JobOver(s *state.Snap, k JobName) bool {
	j := s.Job(nil, k.Namespace, k.Job)
	if j == nil || !j.Stop && !job.RunsToEnd(j.Type) {
		return false
	}
	if j.Launches() && (!j.Stop || childrenOf(s, j)) {
		return false
	}
	ran := false
	for a := range s.AllocsByJob(nil, k.Namespace, k.Job) {
		if !Ended(s, a) {
			return false
		}
		ran = true
	}
	for e := range s.EvalsByJob(nil, k.Namespace, k.Job) {
		if !e.Terminal() {
			return false
		}
	}
	return j.Stop || ran
}

// childrenOf reports whether something is left of what a job has launched: it says where that comes from.
func childrenOf(s *state.Snap, j *job.Job) bool {
	for range s.Children(nil, j) {
		return true
	}
	return false
}

// NodeOver reports whether a node that is down can be forgotten: nothing is bound to it, and no live alloc names it.
func NodeOver(s *state.Snap, id ids.Node) bool {
	n := s.Node(nil, id)
	if n == nil || n.Status != node.StatusDown || len(departure.Bound(s, id)) > 0 {
		return false
	}
	for a := range s.AllocsByNode(nil, id) {
		if !a.ClientTerminal() {
			return false
		}
	}
	return true
}

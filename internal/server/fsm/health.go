package fsm

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/deploying"
	"berth/internal/server/state"
)

func init() { Register[AllocHealth]("alloc-health", 1, "server/health") }

// AllocHealth records what was decided about the health of allocs. Decisions of one instant share one command.
type AllocHealth struct {
	Decisions []HealthDecision
	Seed      string
}

// HealthDecision is about one alloc as it was when the decision was made: Seen is its modify index then.
type HealthDecision struct {
	Alloc   ids.Alloc
	Seen    uint64
	Healthy bool
	Reason  string // why it is not healthy
}

// Apply returns the evaluations ([]ids.Eval) of jobs whose rolling update goes on, or is reported to have stopped. An
// alloc that has changed since it was looked at is passed over: whoever decided looks again.
func (c *AllocHealth) Apply(tx *state.Tx, st Stamp) (any, error) {
	var evals []ids.Eval
	deployed := map[ids.Deployment]*job.Job{}
	for _, d := range c.Decisions {
		old := tx.Alloc(nil, d.Alloc)
		if old == nil || old.ModifyIndex != d.Seen || !alloc.Judged(old, groupOf(tx, old)) {
			continue
		}
		n := *old
		n.Health = &alloc.Health{Healthy: d.Healthy, At: st.Time, Index: st.Index, Reason: d.Reason}
		n.ModifyTime = st.Time.UnixNano()
		tx.PutAlloc(&n)
		j := tx.Job(nil, n.Namespace, n.Job)
		if j.Stopped() || j.CreateIndex != n.JobCreateIndex {
			continue
		}
		if n.Deployment != "" {
			deployed[n.Deployment] = j
		}
		if !deploying.Behind(&tx.Snap, j, n.TaskGroup) {
			continue
		}
		if e := followUp(tx, c.Seed, eval.TriggerRollingUpdate, j); !slices.Contains(evals, e.ID) {
			evals = append(evals, e.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(deployed)) {
		j := deployed[id]
		if !deploying.Settle(tx, j.Namespace, j.ID) {
			continue
		}
		if e := followUp(tx, c.Seed, eval.TriggerDeployment, j); !slices.Contains(evals, e.ID) {
			evals = append(evals, e.ID)
		}
	}
	return evals, nil
}

// groupOf is the group of an alloc's own version of its job.
func groupOf(tx *state.Tx, a *alloc.Alloc) *job.TaskGroup {
	j := tx.JobOf(nil, a)
	if j == nil {
		return nil
	}
	return j.Group(a.TaskGroup)
}

// healthByReport applies what a node's report says about health by itself: an end, or another run of a task.
func healthByReport(tx *state.Tx, st Stamp, old, now *alloc.Alloc) {
	switch do, why := alloc.HealthByReport(old, now, groupOf(tx, now)); do {
	case alloc.HealthBad:
		now.Health = &alloc.Health{At: st.Time, Index: st.Index, Reason: why}
	case alloc.HealthAwait:
		now.Health = nil
	}
}

package fsm

import (
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/deploying"
	"berth/internal/server/state"
)

func init() { Register[PlanApply]("plan-apply", identities, "server/planner") }

// Needs is what a deployment needs, and what belongs to one, or an alloc by what it was given.
func (c *PlanApply) Needs() uint64 {
	needs := alloc.Schema(c.Place)
	if c.Deployment != nil || slices.ContainsFunc(c.Place, func(a *alloc.Alloc) bool { return a.Deployment != "" }) {
		return max(needs, deployment.Schema)
	}
	return needs
}

// Apply returns nil.
func (c *PlanApply) Apply(tx *state.Tx, st Stamp) (any, error) {
	if c.Deployment != nil {
		deploying.Begin(tx, c.Deployment)
	}
	for _, s := range c.Stop {
		if old := tx.Alloc(nil, s.Alloc); old != nil {
			stopAlloc(tx, st, old, s)
		}
	}
	for _, k := range c.QueueDrop {
		if q := tx.Claim(nil, k); q != nil && q.State == volume.Queued {
			endClaim(tx, q)
		}
	}
	for _, a := range c.Place {
		if err := place(tx, st, a); err != nil {
			return nil, err
		}
	}
	for _, claim := range c.Claims {
		if tx.Claim(nil, claim.Key()) != nil {
			continue // an update in place does not touch claims
		}
		if err := takeClaim(tx, st, claim); err != nil {
			return nil, err
		}
	}
	if c.Eval != nil {
		putEvals(tx, []*eval.Eval{c.Eval})
	}
	putEvals(tx, c.Evals)
	if c.Eval != nil { // what is left of a plan that was committed in part follows with the rest
		deploying.Settle(tx, c.Eval.Namespace, c.Eval.Job)
	}
	return nil, nil
}

func place(tx *state.Tx, st Stamp, a *alloc.Alloc) error {
	refuse := func(text string) error {
		return fault.New(fault.Conflict, "place", fmt.Sprintf("alloc %s", a.Name), text)
	}
	if tx.JobOf(nil, a) == nil {
		return refuse(fmt.Sprintf("version %d of its job is not stored any more", a.JobVersion))
	}
	a.AllocModifyIndex, a.ModifyTime = st.Index, st.Time.UnixNano()
	if old := tx.Alloc(nil, a.ID); old != nil {
		if old.Terminal() {
			return refuse(fmt.Sprintf("it is %s/%s already", old.DesiredStatus, old.ClientStatus))
		}
		keepNodesPart(a, old)
		tx.PutAlloc(a)
		return nil
	}
	if n := tx.Node(nil, a.Node); n == nil || n.Status != node.StatusReady {
		return refuse(fmt.Sprintf("node %s is not ready any more", ids.Short(a.Node)))
	}
	if a.DesiredStatus == "" {
		a.DesiredStatus = alloc.DesiredRun
	}
	if a.ClientStatus == "" {
		a.ClientStatus = alloc.ClientPending
	}
	a.CreateTime = st.Time.UnixNano()
	tx.PutAlloc(a)
	if a.PreviousAlloc == "" {
		return nil
	}
	if prev := tx.Alloc(nil, a.PreviousAlloc); prev != nil {
		n := *prev
		n.NextAlloc = a.ID
		tx.PutAlloc(&n)
	}
	return nil
}

// keepNodesPart lets an update in place keep what the node reported.
func keepNodesPart(a, old *alloc.Alloc) {
	a.Node, a.NodeName = old.Node, old.NodeName
	a.ClientStatus, a.ClientDescription = old.ClientStatus, old.ClientDescription
	a.TaskStates, a.Health = old.TaskStates, old.Health
	a.CreateTime = old.CreateTime
	a.PreviousAlloc = old.PreviousAlloc
	a.NextAlloc = old.NextAlloc
	a.Reschedule = old.Reschedule
	if a.DesiredStatus == "" {
		a.DesiredStatus = old.DesiredStatus
	}
}

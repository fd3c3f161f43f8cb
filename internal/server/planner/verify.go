package planner

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
	"berth/internal/server/fsm"
)

// result is what is left of a plan.
type result struct {
	eval     ids.Eval
	cmd      *fsm.PlanApply // nil: nothing is left
	placed   []*scheduler.Placement
	rejected []Rejection
	rivals   []chan struct{} // of the plans in flight that it was checked against
	applied  chan struct{}
}

// check is one verification of a plan.
type check struct {
	plan    *scheduler.Plan
	view    scheduler.View
	flights map[ids.Alloc]*pending
	out     map[ids.Alloc]string // rejected placements and updates, with the reason
}

// verify holds a plan against the latest state, the plans in flight, and itself.
func (p *Planner) verify(plan *scheduler.Plan) *result {
	flights := p.flights()
	snap := p.store.Snapshot()
	c := &check{plan: plan, view: ViewOf(snap), flights: flights, out: map[ids.Alloc]string{}}
	for id := range flights {
		if c.view.Volumes.Alloc(id) != nil {
			delete(c.flights, id) // applied meanwhile
		}
	}
	c.updates()
	// A rejected placement does not end its predecessor, which takes capacity then: look again until nothing more
	// falls.
	for {
		before := len(c.out)
		c.capacities()
		c.claims()
		if len(c.out) == before {
			break
		}
	}
	if plan.AllAtOnce && len(c.out) > 0 {
		for _, pl := range plan.Place {
			if _, rejected := c.out[pl.Alloc.ID]; !rejected {
				c.reject(pl.Alloc.ID, "the job is placed all at once or not at all, and another alloc did not fit")
			}
		}
	}
	return c.result()
}

func (c *check) reject(id ids.Alloc, format string, args ...any) {
	c.out[id] = fmt.Sprintf(format, args...)
}

// updates drops updates of allocs that have ended meanwhile.
func (c *check) updates() {
	for _, a := range c.plan.InPlace {
		if now := c.view.Volumes.Alloc(a.ID); now == nil || now.Terminal() {
			c.reject(a.ID, "it has ended meanwhile")
		}
	}
}

// ended lists the allocs that the plan stops, as it stands now.
func (c *check) ended() map[ids.Alloc]bool {
	out := map[ids.Alloc]bool{}
	for _, s := range c.plan.Stop {
		out[s.Alloc] = true
	}
	for _, pl := range c.plan.Place {
		if _, rejected := c.out[pl.Alloc.ID]; !rejected && pl.Ends != nil {
			out[pl.Ends.Alloc] = true
		}
	}
	return out
}

// capacities checks node by node whether the placements fit.
func (c *check) capacities() {
	ended := c.ended()
	byNode := map[ids.Node][]*scheduler.Placement{}
	var order []ids.Node
	for _, pl := range c.plan.Place {
		if _, rejected := c.out[pl.Alloc.ID]; rejected {
			continue
		}
		if byNode[pl.Alloc.Node] == nil {
			order = append(order, pl.Alloc.Node)
		}
		byNode[pl.Alloc.Node] = append(byNode[pl.Alloc.Node], pl)
	}
	inFlight := map[ids.Node][]*alloc.Alloc{}
	for _, f := range c.flights {
		if byNode[f.alloc.Node] != nil {
			inFlight[f.alloc.Node] = append(inFlight[f.alloc.Node], f.alloc)
		}
	}
	for _, id := range order {
		c.capacity(id, byNode[id], inFlight[id], ended)
	}
}

func (c *check) capacity(
	id ids.Node, places []*scheduler.Placement, inFlight []*alloc.Alloc, ended map[ids.Alloc]bool,
) {
	n := c.view.Nodes.Node(id)
	if n == nil || !n.Ready() {
		for _, pl := range places {
			c.reject(pl.Alloc.ID, "its node is not ready any more")
		}
		return
	}
	allocs := append(c.view.Nodes.NodeAllocs(id), inFlight...)
	capacity := rank.NewCapacity(n, allocs, func(a ids.Alloc) bool { return ended[a] }, nil)
	for _, pl := range places {
		if old := c.view.Volumes.Alloc(pl.Alloc.ID); old != nil {
			c.reject(pl.Alloc.ID, "it was placed already")
			continue
		}
		if dimension := capacity.PutAlloc(pl.Alloc); dimension != "" {
			c.reject(pl.Alloc.ID, "its node has not enough left: %s", dimension)
		}
	}
}

// claims checks whether the volumes can still be given, and as what. A claim whose volume became free is held at once,
// one whose volume was taken by an alloc that ends is queued.
func (c *check) claims() {
	ledger := filter.NewLedger(c.view.Volumes)
	for id := range c.ended() {
		ledger.Stop(id)
	}
	for _, f := range c.flights {
		for _, claim := range f.claims {
			ledger.Take(claim)
		}
	}
	for _, pl := range c.plan.Place {
		if _, rejected := c.out[pl.Alloc.ID]; rejected || len(pl.Claims) == 0 {
			continue
		}
		if reason := admit(ledger, c.view.Nodes.Node(pl.Alloc.Node), pl.Claims); reason != "" {
			c.reject(pl.Alloc.ID, "%s", reason)
			continue
		}
		for _, claim := range pl.Claims {
			ledger.Take(claim)
		}
	}
}

func admit(l *filter.Ledger, n *node.Node, claims []*volume.Claim) string {
	for _, claim := range claims {
		g := l.Admit(requestOf(claim), claim.Volume, claim.Node)
		if g.Refused != nil {
			return g.Refused.Reason
		}
		claim.State = g.State
	}
	return l.Slots(n, claims)
}

// requestOf is the request that a claim answers.
func requestOf(c *volume.Claim) *job.VolumeRequest {
	r := &job.VolumeRequest{
		Name:           c.Alias,
		Type:           job.VolumeTypeCSI,
		Source:         string(c.Volume.ID),
		ReadOnly:       c.ReadOnly,
		AccessMode:     string(c.AccessMode),
		AttachmentMode: string(c.AttachmentMode),
	}
	if o := c.MountOptions; o != nil {
		r.MountOptions = &job.MountOptions{FSType: o.FSType, MountFlags: o.MountFlags}
	}
	return r
}

// result makes the command of what is left.
func (c *check) result() *result {
	plan := c.plan
	v := &result{eval: plan.Eval.ID}
	cmd := &fsm.PlanApply{}
	for _, s := range plan.Stop {
		cmd.Stop = append(cmd.Stop, stopOf(s))
	}
	for _, a := range plan.InPlace {
		if reason, rejected := c.out[a.ID]; rejected {
			v.rejected = append(v.rejected, Rejection{a.ID, a.Node, reason})
			continue
		}
		cmd.Place = append(cmd.Place, a)
	}
	for _, pl := range plan.Place {
		if reason, rejected := c.out[pl.Alloc.ID]; rejected {
			v.rejected = append(v.rejected, Rejection{pl.Alloc.ID, pl.Alloc.Node, reason})
			continue
		}
		v.placed = append(v.placed, pl)
		cmd.Place = append(cmd.Place, pl.Alloc)
		cmd.Claims = append(cmd.Claims, pl.Claims...)
		if pl.Ends != nil {
			cmd.Stop = append(cmd.Stop, stopOf(*pl.Ends))
		}
	}
	cmd.QueueDrop = c.giveWay(cmd.Claims)
	if len(v.rejected) == 0 {
		cmd.Eval, cmd.Evals = plan.Eval, plan.Evals
		for _, r := range plan.Retry {
			cmd.Stop = append(cmd.Stop,
				fsm.AllocStop{Alloc: r.Alloc, DesiredStatus: alloc.DesiredRun, FollowupEval: r.Eval})
		}
	}
	if len(v.rejected) > 0 {
		for _, f := range c.flights {
			v.rivals = append(v.rivals, f.applied)
		}
	}
	if len(cmd.Place) > 0 {
		cmd.Deployment = plan.Deployment
	}
	if cmd.Eval != nil || len(cmd.Place)+len(cmd.Stop) > 0 {
		v.cmd = cmd
	}
	return v
}

func stopOf(s scheduler.Stop) fsm.AllocStop {
	out := fsm.AllocStop{Alloc: s.Alloc, Description: s.Description}
	if s.Lost {
		out.ClientStatus = alloc.ClientLost
	}
	return out
}

// giveWay lists queued claims of allocs that have ended, on volumes that the plan claims.
func (c *check) giveWay(claims []*volume.Claim) []volume.ClaimKey {
	var out []volume.ClaimKey
	for _, mine := range claims {
		for _, old := range c.view.Volumes.Claims(mine.Volume) {
			if old.State != volume.Queued {
				continue
			}
			if a := c.view.Volumes.Alloc(old.Alloc); a == nil || a.Terminal() {
				out = append(out, old.Key())
			}
		}
	}
	slices.SortFunc(out, func(a, b volume.ClaimKey) int {
		return strings.Compare(a.Volume.String()+string(a.Alloc), b.Volume.String()+string(b.Alloc))
	})
	return slices.Compact(out)
}

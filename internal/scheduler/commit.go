package scheduler

import (
	"fmt"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/scheduler/diff"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
)

// fail remembers why a placement failed; the group's first failure is explained, others are counted, but for volumes
// that differ from alloc to alloc.
func (p *placer) fail(t *tally) {
	out := &p.run.out
	out.Queued[p.group.Name]++
	out.Storage = out.Storage || p.csi != nil
	first := out.Failed[p.group.Name]
	if first == nil {
		out.Failed[p.group.Name] = t.failure()
		return
	}
	first.CoalescedFailures++
	if !p.perAlloc || t == p.tally {
		return
	}
	for key, n := range t.constraint { // additions commute
		if _, known := first.ConstraintFiltered[key]; !known && first.ConstraintFiltered != nil &&
			len(first.ConstraintFiltered) < maxReasons {
			first.ConstraintFiltered[key] = n
		}
	}
}

// commit puts the alloc and its claims into the plan.
func (p *placer) commit(w diff.Place, c *rank.Candidate) {
	r, n := p.run, c.Capacity.Node
	var previous ids.Alloc
	if w.Previous != nil {
		previous = w.Previous.ID
	}
	a := &alloc.Alloc{
		ID: ids.Alloc(
			derive(string(r.eval.ID), string(r.job.Namespace), string(r.job.ID), p.group.Name, fmt.Sprint(w.Index),
				string(w.Node), string(previous), fmt.Sprint(p.lives[w.Index]))),
		Namespace:      r.job.Namespace,
		Eval:           r.eval.ID,
		Name:           fmt.Sprintf("%s.%s[%d]", r.job.ID, p.group.Name, w.Index),
		Node:           n.ID,
		NodeName:       n.Name,
		Job:            r.job.ID,
		JobVersion:     r.job.Version,
		JobCreateIndex: r.job.CreateIndex,
		JobType:        r.job.Type,
		TaskGroup:      p.group.Name,
		Index:          w.Index,
		DesiredStatus:  alloc.DesiredRun,
		ClientStatus:   alloc.ClientPending,
		PreviousAlloc:  previous,
		Canary:         w.Canary,
	}
	if w.Failed {
		a.Reschedule = diff.History(w.Previous, r.now, w.Delay)
	} else if w.Previous != nil && !w.Update {
		a.Reschedule = w.Previous.Reschedule
	}
	a.Metrics = p.explain(c)
	a.Resources = c.Capacity.Choose(p.ask, a.ID)
	place := &Placement{Alloc: a, Claims: p.claims(w, a)}
	if w.Ends != "" {
		s := newStop(w.Previous, w.Ends, false)
		place.Ends = &s
	}
	c.Capacity.Put(p.ask, a.Resources, p.group.Name, a.ID)
	r.distinct.Count(a)
	r.staying = append(r.staying, a)
	p.spread.Count(n)
	p.requeue(c)
	r.plan.Place = append(r.plan.Place, place)
}

// explain returns the metric of a success, with the score of the chosen node.
func (p *placer) explain(c *rank.Candidate) *alloc.Metric {
	m := p.tally.metric()
	scores, sum := p.queue.Score(c)
	m.ScoreMetaData = []*alloc.NodeScore{{NodeID: c.Capacity.Node.ID, Scores: scores, NormScore: sum}}
	return &m
}

// claims takes the alloc's volumes. Two aliases of one volume are one claim.
func (p *placer) claims(w diff.Place, a *alloc.Alloc) []*volume.Claim {
	var out []*volume.Claim
	for _, want := range filter.Wants(a.Namespace, p.group, w.Index) {
		twice := false
		for _, c := range out {
			if twice = c.Volume == want.ID; twice {
				c.ReadOnly = c.ReadOnly && want.Request.ReadOnly
				break
			}
		}
		if twice {
			continue
		}
		g := p.run.ledger.Admit(want.Request, want.ID, a.Node)
		out = append(out, &volume.Claim{
			Volume:         want.ID,
			Alloc:          a.ID,
			Node:           a.Node,
			Job:            a.Job,
			Alias:          want.Request.Name,
			AccessMode:     volume.AccessMode(want.Request.AccessMode),
			AttachmentMode: volume.AttachmentMode(want.Request.AttachmentMode),
			MountOptions:   g.Options,
			ReadOnly:       want.Request.ReadOnly,
			State:          g.State,
		})
	}
	for _, c := range out {
		p.run.ledger.Take(c)
	}
	return out
}

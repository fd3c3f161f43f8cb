package scheduler

import (
	"fmt"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/scheduler/devices"
	"berth/internal/scheduler/diff"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
)

// Bounds of how many nodes are looked at before the first choice. More are looked at while none fits.
const (
	minSample  = 32
	wideSample = 100
)

// placer finds places for the allocs of one group. Nodes are filtered once, in the order of the seed, and only as many
// as are needed; those that pass wait in a queue that yields the best. A node that has no room for one alloc of the
// group has none for the others and is dropped.
type placer struct {
	run      *run
	group    *job.TaskGroup
	static   filter.Chain
	csi      *filter.CSI // nil: the group has no CSI volume
	perAlloc bool
	apart    bool // distinct_hosts or distinct_property
	assuming bool // that what is ending has ended
	ask      *rank.Ask
	scorer   *rank.Scorer
	spread   *rank.Spread
	queue    *rank.Queue
	seen     map[ids.Node]*entry
	walk     *walk
	sample   int
	tally    *tally
	lives    map[int]int // how many allocs each index had, so that every one of them has an id of its own
}

// entry is a node that was looked at. Candidate nil: a filter refused it.
type entry struct {
	candidate *rank.Candidate
	queued    bool
	dropped   bool // it has no room for any alloc of the group
}

func newPlacer(r *run, g *groupRun) *placer {
	p := &placer{
		run:   r,
		group: g.group,
		walk:  r.nodes.walk(),
		seen:  map[ids.Node]*entry{},
		tally: newTally(r.nodes),
	}
	req := &filter.Request{Job: r.job, Group: g.group}
	p.static = filter.Prepare(req, append(filter.Static(r.job.Region), &devices.Filter{}, filter.NewUnfit(g.allocs))...)
	if csi := filter.NewCSI(r.ledger); csi.Prepare(req) {
		p.csi = csi
	}
	p.lives = map[int]int{}
	for _, a := range g.allocs {
		p.lives[a.Index]++
	}
	for _, v := range g.group.CSIVolumes() {
		p.perAlloc = p.perAlloc || v.PerAlloc
	}
	p.apart = r.distinct.Prepare(req)
	for _, a := range r.staying {
		r.distinct.CountProperties(a)
	}
	p.ask = rank.NewAsk(r.job, g.group)
	p.scorer = rank.NewScorer(r.job, g.group, p.ask)
	p.spread = rank.NewSpread(r.job, g.group)
	for _, a := range r.staying {
		if n := r.view.Nodes.Node(a.Node); n != nil && a.TaskGroup == g.name {
			p.spread.Count(n)
		}
	}
	p.queue = rank.NewQueue(p.scorer, p.spread)
	p.sample = max(2*len(g.result.Place), minSample)
	if p.scorer.Wide() {
		p.sample = max(p.sample, wideSample)
	}
	return p
}

// place seeks a place for one alloc and puts it into the plan, or says why there is none.
func (p *placer) place(w diff.Place) {
	if w.Ends != "" {
		p.release(w.Previous)
	}
	c, failed := p.find(w)
	switch {
	case c != nil:
		p.commit(w, c)
		return
	case p.fitsOnceEnded(w):
		p.leave()
		if w.Update { // waiting for each other would be for ever
			p.run.plan.Stop = append(p.run.plan.Stop, newStop(w.Previous, w.Ends, false))
			return
		}
	case p.made():
	default:
		p.fail(failed)
	}
	if w.Ends != "" {
		p.restore(w.Previous)
	}
}

// placeTogether replaces allocs that can only be replaced all at once.
func (p *placer) placeTogether(ws []diff.Place) {
	for _, w := range ws {
		p.release(w.Previous)
	}
	for i, w := range ws {
		c, failed := p.find(w)
		if c != nil {
			p.commit(w, c)
			continue
		}
		leave := i == 0 && p.fitsOnceEnded(w) // the first decides for all
		if leave {
			p.leave()
		}
		for _, rest := range ws[i:] {
			if leave {
				p.run.plan.Stop = append(p.run.plan.Stop, newStop(rest.Previous, rest.Ends, false))
				continue
			}
			p.fail(failed)
			p.restore(rest.Previous)
		}
		return
	}
}

// find seeks a place for one alloc.
func (p *placer) find(w diff.Place) (*rank.Candidate, *tally) {
	if p.perAlloc {
		p.csi.Prepare(&filter.Request{Job: p.run.job, Group: p.group, Index: w.Index})
	}
	return p.choose(w)
}

// leave notes that a successor comes when what is in its way has ended by itself.
func (p *placer) leave() {
	p.run.out.Leaving = true
	p.run.out.Storage = p.run.out.Storage || p.csi != nil
}

// made tells whether nothing but volumes that are being made is in the way of an alloc, and notes them.
func (p *placer) made() bool {
	if p.csi == nil {
		return false
	}
	making := p.csi.Making()
	for _, id := range making {
		if !slices.Contains(p.run.out.Making, id) {
			p.run.out.Making = append(p.run.out.Making, id)
		}
	}
	p.run.out.Storage = p.run.out.Storage || len(making) > 0
	return len(making) > 0
}

func (p *placer) release(a *alloc.Alloc) {
	p.run.release(a)
	p.reconsider(a.Node)
}

func (p *placer) restore(a *alloc.Alloc) {
	p.run.restore(a)
	p.reconsider(a.Node)
}

// reconsider lets a node be chosen again that was dropped for want of capacity.
func (p *placer) reconsider(id ids.Node) {
	if e := p.seen[id]; e != nil && e.candidate != nil {
		p.queue.Remove(e.candidate) // what it scored is no longer true
		p.requeue(e.candidate)
	}
}

// fitsOnceEnded tells whether the alloc would find a place if what is ending, its predecessor before all, had ended:
// its ports are held until its processes are gone, and the mode of its volumes until they are released.
func (p *placer) fitsOnceEnded(w diff.Place) bool {
	refused := p.csi != nil && p.csi.Refused() != nil
	if !refused && w.Previous == nil {
		return false
	}
	p.assuming = true
	p.run.ledger.AssumeEnded(true)
	defer func() {
		p.assuming = false
		p.run.ledger.AssumeEnded(false)
	}()
	var c *rank.Candidate
	switch {
	case p.csi != nil && p.csi.Refused() != nil:
	case refused:
		c, _ = p.choose(w)
	default:
		c, _ = p.exactly(w, w.Previous.Node)
	}
	if c == nil {
		return false
	}
	p.requeue(c)
	return true
}

// choose returns the best candidate, taken out of the queue, or the tally of refusals.
func (p *placer) choose(w diff.Place) (*rank.Candidate, *tally) {
	if p.csi != nil {
		if refused := p.csi.Refused(); refused != nil {
			t := p.tally.clone()
			t.refuseAll(refused)
			return nil, t
		}
	}
	if w.Node != "" {
		return p.exactly(w, w.Node)
	}
	if id := p.attached(w); id != "" {
		if c, _ := p.exactly(w, id); c != nil {
			return c, nil
		}
	}
	if p.csi != nil {
		if home, id := p.csi.Home(); home != "" {
			return p.atHome(w, home, id)
		}
	}
	return p.best(w)
}

// attached returns the node that a successor had better stay on: its data or its volumes are there.
func (p *placer) attached(w diff.Place) ids.Node {
	if w.Previous == nil || w.Failed {
		return ""
	}
	disk := p.group.EphemeralDisk
	if len(p.group.Volumes) > 0 || disk != nil && disk.Sticky {
		return w.Previous.Node
	}
	return ""
}

// atHome tries the node that a volume cannot leave. What keeps the job from it is said of the volume: whoever reads of
// the node alone seeks another one.
func (p *placer) atHome(w diff.Place, home ids.Node, id ids.Volume) (*rank.Candidate, *tally) {
	c, t := p.exactly(w, home)
	if c != nil {
		return c, nil
	}
	switch n := p.run.view.Nodes.Node(home); {
	case n == nil:
		t.refuseAll(&filter.Refusal{
			Key:    filter.TopologyKey,
			Reason: fmt.Sprintf("volume %q lives on node %s, which is not known any more", id, ids.Short(home)),
			Hint:   "bring that node back, or have the job use another volume",
		})
	case !p.run.nodes.has(n):
		t.bound(n, id)
	default:
		if f, key := p.static.Check(n); key != "" {
			t.keptFrom(n, id, f)
		}
	}
	return nil, t
}

// exactly tries one node.
func (p *placer) exactly(w diff.Place, id ids.Node) (*rank.Candidate, *tally) {
	t := p.tally.clone()
	n := p.run.view.Nodes.Node(id)
	if n == nil || !p.run.nodes.has(n) {
		return nil, t
	}
	e := p.look(n, t)
	if e.candidate == nil {
		return nil, t
	}
	if f, key := p.refusal(e.candidate); key != "" {
		p.count(t, e.candidate, f, key)
		if !e.queued && !e.dropped {
			p.requeue(e.candidate) // another alloc may fit where this one does not
		}
		return nil, t
	}
	if e.queued {
		p.queue.Remove(e.candidate)
		e.queued = false
	}
	return e.candidate, nil
}

// best takes candidates from the queue until one fits. One that fits on a node where the predecessor failed is kept for
// the case that there is no other.
func (p *placer) best(w diff.Place) (*rank.Candidate, *tally) {
	var avoid map[ids.Node]bool
	if w.Failed {
		avoid = penalised(w.Previous)
	}
	var aside []*rank.Candidate
	var fallback *rank.Candidate
	var mine *tally
	p.pull(p.sample - len(p.seen))
	var chosen *rank.Candidate
	for chosen == nil {
		c := p.queue.Pop()
		if c == nil {
			if !p.pull(minSample) {
				break
			}
			continue
		}
		p.seen[c.Capacity.Node.ID].queued = false
		f, key := p.refusal(c)
		switch {
		case key == "" && !avoid[c.Capacity.Node.ID]:
			chosen = c
		case key == "":
			if fallback == nil {
				fallback = c
			} else {
				aside = append(aside, c)
			}
		case p.passing(w, f):
			if mine == nil {
				mine = p.tally.clone()
			}
			p.count(mine, c, f, key)
			aside = append(aside, c)
		default:
			p.seen[c.Capacity.Node.ID].dropped = true
			p.count(p.tally, c, f, key)
			if mine != nil {
				p.count(mine, c, f, key)
			}
		}
	}
	if chosen == nil {
		chosen, fallback = fallback, nil
	}
	if fallback != nil {
		aside = append(aside, fallback)
	}
	for _, c := range aside {
		p.requeue(c)
	}
	if chosen != nil {
		return chosen, nil
	}
	if mine == nil {
		mine = p.tally
	}
	return nil, mine
}

// passing tells whether a refusal is this alloc's alone, so that the node stays a candidate for the others.
func (p *placer) passing(w diff.Place, f filter.Filter) bool {
	return f == p.csi && p.perAlloc || f == p.run.distinct && w.Ends != ""
}

// refusal asks what changes while the plan grows: what keeps allocs apart, attach slots, capacity.
func (p *placer) refusal(c *rank.Candidate) (filter.Filter, string) {
	n := c.Capacity.Node
	if p.apart {
		if key := p.run.distinct.Check(n); key != "" {
			return p.run.distinct, key
		}
	}
	if p.csi != nil {
		if key := p.csi.Check(n); key != "" {
			return p.csi, key
		}
	}
	return nil, c.Capacity.Fits(p.ask, p.assuming)
}

func (p *placer) count(t *tally, c *rank.Candidate, f filter.Filter, key string) {
	if f == nil {
		t.exhaust(c.Capacity.Node, key, c.Capacity.Shortage(p.ask, p.assuming))
		return
	}
	t.refuse(c.Capacity.Node, f, key)
}

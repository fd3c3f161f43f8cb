package scheduler

import (
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
)

// look filters a node once. With t the refusal is counted there, else in the group's tally.
func (p *placer) look(n *node.Node, t *tally) *entry {
	if e := p.seen[n.ID]; e != nil {
		if e.candidate == nil && t != nil {
			if f, key := p.check(n); key != "" {
				t.refuse(n, f, key)
			}
		}
		return e
	}
	e := &entry{}
	p.seen[n.ID] = e
	p.tally.evaluated++
	p.tally.frozen = nil
	f, key := p.check(n)
	if key != "" {
		p.tally.refuse(n, f, key)
		if t != nil {
			t.evaluated++
			t.refuse(n, f, key)
		}
		return e
	}
	e.candidate = p.queue.New(p.run.capacity(n), p.scorer.Fixed(n))
	return e
}

// check asks the filters whose answer is the same for every alloc of the group.
func (p *placer) check(n *node.Node) (filter.Filter, string) {
	if f, key := p.static.Check(n); key != "" {
		return f, key
	}
	if p.csi != nil && !p.perAlloc {
		if key := p.csi.Check(n); key != "" {
			return p.csi, key
		}
	}
	return nil, ""
}

// pull looks at more nodes until some are queued; false: there are no more.
func (p *placer) pull(wanted int) bool {
	found := false
	for wanted > 0 {
		n := p.walk.take()
		if n == nil {
			break
		}
		if p.seen[n.ID] != nil {
			continue
		}
		if e := p.look(n, nil); e.candidate != nil {
			p.requeue(e.candidate)
			found = true
			wanted--
		}
	}
	return found
}

func (p *placer) requeue(c *rank.Candidate) {
	p.queue.Return(c)
	e := p.seen[c.Capacity.Node.ID]
	e.queued, e.dropped = true, false
}

package rank

import (
	"strings"

	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
)

// Spread counts the allocs of a group over the values of attributes and says how much one more is wanted at a value.
// The score of a value falls when an alloc comes to it and never rises, and it depends on that value's count alone:
// that is what lets the queue put off looking at the others.
type Spread struct {
	parts  []spreadPart
	region string
}

type spreadPart struct {
	target filter.Target
	weight float64 // its share of all weights
	total  float64 // allocs that the group wants
	wanted map[string]float64
	rest   float64 // wanted at all other values together; below zero: no targets, spread evenly
	counts map[string]float64
}

// NewSpread reads the spreads of job and group; nil when there are none.
func NewSpread(j *job.Job, g *job.TaskGroup) *Spread {
	all := append(append([]*job.Spread{}, j.Spreads...), g.Spreads...)
	if len(all) == 0 {
		return nil
	}
	sum := 0.0
	for _, s := range all {
		sum += weightOf(s)
	}
	out := &Spread{region: j.Region}
	for _, s := range all {
		p := spreadPart{
			target: filter.ParseTarget(s.Attribute),
			weight: weightOf(s) / sum,
			total:  float64(max(g.Count, 1)),
			rest:   -1,
			wanted: map[string]float64{},
			counts: map[string]float64{},
		}
		if len(s.SpreadTarget) > 0 {
			left := 100.0
			for _, t := range s.SpreadTarget {
				p.wanted[t.Value] = p.total * float64(t.Percent) / 100
				left -= float64(t.Percent)
			}
			p.rest = max(p.total*left/100, 0)
		}
		out.parts = append(out.parts, p)
	}
	return out
}

func weightOf(s *job.Spread) float64 {
	if s.Weight <= 0 {
		return 50
	}
	return float64(s.Weight)
}

// Bucket names the values of a node; nodes of one bucket have the same spread score.
func (s *Spread) Bucket(n *node.Node) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	for i := range s.parts {
		v, ok := s.parts[i].target.Value(n, s.region)
		if ok {
			b.WriteByte('=')
			b.WriteString(v)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// Count adds an alloc that stays or was placed on a node.
func (s *Spread) Count(n *node.Node) {
	if s == nil {
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		if v, ok := p.target.Value(n, s.region); ok {
			p.counts[v]++
		}
	}
}

// Score says how much one more alloc is wanted at the node's values, in -1..1.
func (s *Spread) Score(n *node.Node) float64 {
	if s == nil {
		return 0
	}
	sum := 0.0
	for i := range s.parts {
		p := &s.parts[i]
		v, ok := p.target.Value(n, s.region)
		sum += p.weight * p.score(v, ok)
	}
	return sum
}

func (p *spreadPart) score(value string, ok bool) float64 {
	if !ok {
		return -1
	}
	have := p.counts[value]
	if p.rest < 0 {
		return -have / (have + 1)
	}
	want, named := p.wanted[value]
	if !named {
		want = p.rest
	}
	if want <= 0 {
		return -1
	}
	return max((want-have-1)/want, -1) // as it would be with one more
}

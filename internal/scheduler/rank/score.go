package rank

import (
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/devices"
	"berth/internal/scheduler/filter"
)

// Names of scores, as clients of the API know them.
const (
	ScoreBinpack      = "binpack"
	ScoreAntiAffinity = "job-anti-affinity"
	ScoreAffinity     = "node-affinity"
	ScorePenalty      = "node-reschedule-penalty"
	ScoreSpread       = "allocation-spread"
	ScoreDevices      = devices.Score
)

// Scorer computes the part of a node's score that depends on the node alone.
type Scorer struct {
	ask        *Ask
	group      string
	region     string
	affinities []affinity
	weights    float64
	divisor    float64
	spreads    bool
}

type affinity struct {
	left, right filter.Target
	test        filter.Test
	weight      float64
}

// NewScorer reads the affinities of job, group and tasks. An affinity that cannot be read is an error of the job, which
// validation refuses; here it weighs nothing.
func NewScorer(j *job.Job, g *job.TaskGroup, ask *Ask) *Scorer {
	s := &Scorer{ask: ask, group: g.Name, region: j.Region, divisor: 2}
	s.add(j.Affinities)
	s.add(g.Affinities)
	for _, t := range g.Tasks {
		s.add(t.Affinities)
	}
	if len(s.affinities) > 0 {
		s.divisor++
	}
	if ask.devices.Weighs() {
		s.divisor++
	}
	if len(j.Spreads)+len(g.Spreads) > 0 {
		s.spreads = true
		s.divisor++
	}
	return s
}

func (s *Scorer) add(list []*job.Affinity) {
	for _, a := range list {
		right := filter.ParseTarget(a.RTarget)
		test, err := filter.NewTest(a.Operand, right)
		if err != nil || a.Weight == 0 {
			continue
		}
		s.affinities = append(s.affinities, affinity{filter.ParseTarget(a.LTarget), right, test, float64(a.Weight)})
		s.weights += abs(float64(a.Weight))
	}
}

// Wide reports whether the choice among many nodes matters, so that more of them are looked at.
func (s *Scorer) Wide() bool { return len(s.affinities) > 0 || s.spreads || s.ask.devices.Weighs() }

// Fixed is the score of a node that no placement changes: its affinity, in -1..1.
func (s *Scorer) Fixed(n *node.Node) float64 {
	if len(s.affinities) == 0 {
		return 0
	}
	sum := 0.0
	for i := range s.affinities {
		a := &s.affinities[i]
		l, hl := a.left.Value(n, s.region)
		r, hr := a.right.Value(n, s.region)
		if a.test(l, hl, r, hr) {
			sum += a.weight
		}
	}
	return sum / s.weights
}

// Binpack is how full the node would be with one more alloc, in 0..1: full nodes leave others whole.
func (s *Scorer) Binpack(r *Capacity) float64 {
	used := func(total, left, ask int64) float64 {
		if total <= 0 {
			return 1
		}
		return min(max(float64(total-left+ask)/float64(total), 0), 1)
	}
	cpu, _ := r.computing(s.ask)
	return (used(r.total[0], r.cpu, cpu) + used(r.total[1], r.memory, s.ask.memory)) / 2
}

// AntiAffinity is below zero where allocs of the same group run: one more failure domain is worth more than a full
// node.
func (s *Scorer) AntiAffinity(r *Capacity) float64 {
	n := float64(r.Peers(s.group))
	return -n / (n + 1)
}

// Local sums what depends on the node alone.
func (s *Scorer) Local(r *Capacity, fixed float64) float64 {
	return (s.Binpack(r) + s.AntiAffinity(r) + s.Devices(r) + fixed) / s.divisor
}

// Devices is how well the devices that would be given fit the affinities to them, in -1..1.
func (s *Scorer) Devices(r *Capacity) float64 {
	if !s.ask.devices.Weighs() {
		return 0
	}
	c, _ := r.chooseDevices(s.ask, false)
	return c.Score
}

// Share turns another score, such as the spread's, into its part of the sum.
func (s *Scorer) Share(score float64) float64 { return score / s.divisor }

func abs(f float64) float64 {
	if f < 0 {
		return -f
	}
	return f
}

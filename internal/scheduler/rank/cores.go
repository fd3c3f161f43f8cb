package rank

import (
	"fmt"
	"strings"

	"berth/internal/model/alloc"
	"berth/internal/model/cores"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// coreAsk is a task that gets whole cores.
type coreAsk struct {
	task, affinity string
	n              int
}

func newCoreAsk(t *job.Task) coreAsk {
	a := coreAsk{task: t.Name, n: t.Resources.Cores, affinity: cores.AffinityNone}
	if numa := t.Resources.NUMA; numa != nil {
		a.affinity = numa.Affinity
	}
	return a
}

// coreBook is who has which cores of a node.
type coreBook struct {
	all    []cores.Core // that can be given away whole
	total  int64        // MHz of the node
	every  []cores.Core // of the node, those that it keeps back too
	held   map[uint16]int
	shared int // tasks without cores of their own: one core at least is theirs
}

func newCoreBook(n *node.Node) coreBook {
	b := coreBook{all: n.Resources.Cores, every: n.Resources.Cores, total: n.Resources.CPUShares}
	if len(n.Reserved.Kept) > 0 {
		b.all = nil
		open := map[uint16]bool{}
		for _, id := range cores.Without(n.Resources.Cores, n.Reserved.Kept) {
			open[id] = true
		}
		for _, c := range n.Resources.Cores {
			if open[c.ID] {
				b.all = append(b.all, c)
			}
		}
	}
	return b
}

// take counts what an alloc has, n times: 1 or -1.
func (b *coreBook) take(r alloc.Resources, n int) {
	for _, t := range r.Tasks { // counted, in any order
		if len(t.Cores) == 0 {
			b.shared += n
		}
		for _, id := range t.Cores {
			if b.held == nil {
				b.held = map[uint16]int{}
			}
			b.held[id] += n
		}
	}
}

// left are the cores that nobody has.
func (b *coreBook) left() []cores.Core {
	out := make([]cores.Core, 0, len(b.all))
	for _, c := range b.all {
		if b.held[c.ID] <= 0 {
			out = append(out, c)
		}
	}
	return out
}

// choose gives each task its cores, or says false: there are too few, or not near enough to each other.
func (b *coreBook) choose(asks []coreAsk) (map[string][]uint16, bool) {
	if len(asks) == 0 {
		return nil, true
	}
	left := b.left()
	out := make(map[string][]uint16, len(asks))
	for _, a := range asks {
		ids, ok := cores.Choose(left, a.n, a.affinity)
		if !ok {
			return nil, false
		}
		out[a.task] = ids
		rest := make([]cores.Core, 0, len(left))
		for _, id := range cores.Without(left, ids) {
			for _, c := range left {
				if c.ID == id {
					rest = append(rest, c)
				}
			}
		}
		left = rest
	}
	return out, true
}

func (b *coreBook) shares(ids []uint16) int64 { return cores.Shares(b.every, ids, b.total) }

// sharing reports whether the tasks without cores, so many more among them, have one left when others take n.
func (b *coreBook) sharing(more, n int) bool {
	return len(b.all) == 0 || b.shared+more == 0 || len(b.left()) > n
}

// free reports whether the cores of an alloc are there and nobody's.
func (b *coreBook) free(r alloc.Resources) bool {
	mine, shared := 0, 0
	seen := map[uint16]bool{}
	for _, t := range r.Tasks { // counted, in any order
		if len(t.Cores) == 0 {
			shared++
		}
		for _, id := range t.Cores {
			if seen[id] || !b.open(id) {
				return false
			}
			seen[id] = true
			mine++
		}
	}
	return b.sharing(shared, mine)
}

func (b *coreBook) open(id uint16) bool {
	for _, c := range b.all {
		if c.ID == id {
			return b.held[id] <= 0
		}
	}
	return false
}

// computing is how much an ask takes of the node's processors, and whether there are the cores that it asks for.
func (r *Capacity) computing(a *Ask) (int64, bool) {
	chosen, ok := r.cores.choose(a.cores)
	cpu, n := a.cpu, 0
	for _, ids := range chosen { // added up, in any order
		cpu += r.cores.shares(ids)
		n += len(ids)
	}
	return cpu, ok && r.cores.sharing(len(a.tasks)-len(a.cores), n)
}

// coreShortage says which cores are missing.
func (r *Capacity) coreShortage(a *Ask) Shortage {
	var asks []string
	n := 0
	for _, c := range a.cores {
		asks = append(asks, cores.Describe(c.n, c.affinity))
		n += c.n
	}
	if n == 0 {
		return Shortage{"cores: every core of the node is reserved whole by an allocation", askForLess}
	}
	s := Shortage{fmt.Sprintf("cores: asks %s, %d of %d free", strings.Join(asks, " and "), len(r.cores.left()),
		len(r.cores.all)), askForLess}
	switch {
	case len(r.cores.every) == 0:
		s.Reason, s.Hint = "cores: the node gives no whole cores away", "ask for cpu, or choose another node"
	case n > len(r.cores.all):
		s.Hint = tooSmall
	case n >= len(r.cores.left()):
		s.Reason += ", one of which the tasks that share the rest need"
	}
	return s
}

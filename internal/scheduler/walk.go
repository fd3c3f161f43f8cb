package scheduler

import (
	"container/heap"
	"fmt"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// walk yields the candidates one by one, each once: from every group in proportion to its size, and within a group by
// id from a place that the seed names. What it costs follows from how many nodes are taken, not from how many there
// are.
type walk struct {
	groups stretches
}

// stretch is what a walk has seen of a group.
type stretch struct {
	nodes Nodes
	group node.GroupSize
	turn  int      // breaks ties among groups
	next  ids.Node // where it goes on
	taken int
	ahead []*node.Node
}

// ahead bounds how many nodes of a group are read at once.
const ahead = 16

func (c *candidates) walk() *walk {
	w := &walk{}
	// Nodes' ids are UUIDs: a random one is as good a beginning as any.
	from := ids.Node(fmt.Sprintf("%08x-%04x-", uint32(c.seed>>32), uint16(c.seed>>16)))
	for i, g := range c.groups {
		turn := (i + int(c.seed%uint64(len(c.groups)))) % len(c.groups)
		w.groups = append(w.groups, &stretch{nodes: c.view, group: g, turn: turn, next: from})
	}
	heap.Init(&w.groups)
	return w
}

// take returns the next candidate; nil: there are no more.
func (w *walk) take() *node.Node {
	if len(w.groups) == 0 {
		return nil
	}
	s := w.groups[0]
	n := s.take()
	if s.taken == s.group.Nodes {
		heap.Pop(&w.groups)
	} else {
		heap.Fix(&w.groups, 0)
	}
	return n
}

func (s *stretch) take() *node.Node {
	if len(s.ahead) == 0 {
		s.read()
	}
	n := s.ahead[0]
	s.ahead = s.ahead[1:]
	s.taken++
	return n
}

// read reads some nodes ahead, and goes on with the group's first after its last. The group has more than were taken.
func (s *stretch) read() {
	for len(s.ahead) == 0 {
		for n := range s.nodes.Of(s.group.Group, s.next) {
			s.ahead = append(s.ahead, n)
			s.next = n.ID + "\x00"
			if len(s.ahead) == ahead {
				return
			}
		}
		if len(s.ahead) == 0 {
			s.next = ""
		}
	}
}

// stretches are a heap of groups: on top is the one of which the smallest part was taken.
type stretches []*stretch

func (h stretches) Len() int { return len(h) }
func (h stretches) Less(i, j int) bool {
	a, b := h[i], h[j]
	if l, r := (2*a.taken+1)*b.group.Nodes, (2*b.taken+1)*a.group.Nodes; l != r {
		return l < r
	}
	return a.turn < b.turn
}
func (h stretches) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *stretches) Push(x any)   { *h = append(*h, x.(*stretch)) }
func (h *stretches) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	return s
}

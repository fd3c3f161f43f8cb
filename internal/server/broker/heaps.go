package broker

// before orders evaluations: priority, then age, then id.
func before(a, b *item) bool {
	switch {
	case a.eval.Priority != b.eval.Priority:
		return a.eval.Priority > b.eval.Priority
	case a.eval.CreateIndex != b.eval.CreateIndex:
		return a.eval.CreateIndex < b.eval.CreateIndex
	}
	return a.eval.ID < b.eval.ID
}

type readyHeap []*item

func (h readyHeap) Len() int           { return len(h) }
func (h readyHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h readyHeap) Swap(i, j int)      { swap(h, i, j) }
func (h *readyHeap) Push(x any)        { *h = push(*h, x.(*item)) }
func (h *readyHeap) Pop() any {
	rest, it := pop(*h)
	*h = rest
	return it
}

type timedHeap []*item

func (h timedHeap) Len() int           { return len(h) }
func (h timedHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timedHeap) Swap(i, j int)      { swap(h, i, j) }
func (h *timedHeap) Push(x any)        { *h = push(*h, x.(*item)) }
func (h *timedHeap) Pop() any {
	rest, it := pop(*h)
	*h = rest
	return it
}

func swap(h []*item, i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func push(h []*item, it *item) []*item {
	it.slot = len(h)
	return append(h, it)
}

func pop(h []*item) ([]*item, *item) {
	it := h[len(h)-1]
	h[len(h)-1] = nil
	return h[:len(h)-1], it
}

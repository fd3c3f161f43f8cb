package rank

import "container/heap"

// Candidate is a node that passed the filters.
type Candidate struct {
	Capacity *Capacity
	Fixed    float64 // affinity
	order    int     // in which it was offered; breaks ties
	local    float64
	bucket   string
	slot     int // in its bucket; -1: in none
}

// Queue yields candidates best first. A candidate's own score may change only when something is placed on it (Return);
// the score of a bucket may fall at any time, which the queue finds out when the bucket comes to the top.
type Queue struct {
	scorer  *Scorer
	spread  *Spread
	buckets bucketHeap
	byName  map[string]*bucket
	offered int
}

type bucket struct {
	heap  candidateHeap
	bound float64 // upper bound of the best candidate's whole score
	slot  int
}

// NewQueue returns an empty queue; spread may be nil.
func NewQueue(s *Scorer, spread *Spread) *Queue {
	return &Queue{scorer: s, spread: spread, byName: map[string]*bucket{}}
}

// New returns a candidate that is not in the queue yet.
func (q *Queue) New(r *Capacity, fixed float64) *Candidate {
	q.offered++
	return &Candidate{Capacity: r, Fixed: fixed, order: q.offered, slot: -1}
}

// Remove takes a candidate out wherever it is.
func (q *Queue) Remove(c *Candidate) {
	if c.slot < 0 {
		return
	}
	b := q.byName[c.bucket]
	heap.Remove(&b.heap, c.slot)
	q.file(b)
}

// Return puts a candidate (back), with its score as it is now.
func (q *Queue) Return(c *Candidate) {
	c.local = q.scorer.Local(c.Capacity, c.Fixed)
	c.bucket = q.spread.Bucket(c.Capacity.Node)
	b := q.byName[c.bucket]
	if b == nil {
		b = &bucket{slot: -1}
		q.byName[c.bucket] = b
	}
	heap.Push(&b.heap, c)
	q.file(b)
}

// file puts a bucket where its best candidate belongs.
func (q *Queue) file(b *bucket) {
	if len(b.heap) == 0 {
		if b.slot >= 0 {
			heap.Remove(&q.buckets, b.slot)
		}
		return
	}
	b.bound = q.whole(b.heap[0])
	if b.slot < 0 {
		heap.Push(&q.buckets, b)
		return
	}
	heap.Fix(&q.buckets, b.slot)
}

func (q *Queue) whole(c *Candidate) float64 {
	return c.local + q.scorer.Share(q.spread.Score(c.Capacity.Node))
}

// Pop takes the best candidate out; nil when there is none.
func (q *Queue) Pop() *Candidate {
	for len(q.buckets) > 0 {
		b := q.buckets[0]
		if now := q.whole(b.heap[0]); now < b.bound {
			b.bound = now
			heap.Fix(&q.buckets, 0)
			continue
		}
		c := heap.Pop(&b.heap).(*Candidate)
		q.file(b)
		return c
	}
	return nil
}

// Score explains a candidate: its scores by name and their sum.
func (q *Queue) Score(c *Candidate) (map[string]float64, float64) {
	out := map[string]float64{
		ScoreBinpack:      q.scorer.Binpack(c.Capacity),
		ScoreAntiAffinity: q.scorer.AntiAffinity(c.Capacity),
	}
	if len(q.scorer.affinities) > 0 {
		out[ScoreAffinity] = c.Fixed
	}
	if q.scorer.ask.devices.Weighs() {
		out[ScoreDevices] = q.scorer.Devices(c.Capacity)
	}
	if q.spread != nil {
		out[ScoreSpread] = q.spread.Score(c.Capacity.Node)
	}
	return out, q.whole(c)
}

type candidateHeap []*Candidate

func (h candidateHeap) Len() int { return len(h) }
func (h candidateHeap) Less(i, j int) bool {
	if h[i].local != h[j].local {
		return h[i].local > h[j].local
	}
	return h[i].order < h[j].order
}
func (h candidateHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}
func (h *candidateHeap) Push(x any) {
	c := x.(*Candidate)
	c.slot = len(*h)
	*h = append(*h, c)
}
func (h *candidateHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.slot = -1
	return c
}

type bucketHeap []*bucket

func (h bucketHeap) Len() int { return len(h) }
func (h bucketHeap) Less(i, j int) bool {
	if h[i].bound != h[j].bound {
		return h[i].bound > h[j].bound
	}
	return h[i].heap.first() < h[j].heap.first()
}
func (h bucketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}
func (h *bucketHeap) Push(x any) {
	b := x.(*bucket)
	b.slot = len(*h)
	*h = append(*h, b)
}
func (h *bucketHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	b.slot = -1
	return b
}

func (h candidateHeap) first() int {
	if len(h) == 0 {
		return 0
	}
	return h[0].order
}

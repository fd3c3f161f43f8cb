package devices

import (
	"cmp"
	"fmt"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/device"
	"berth/internal/model/node"
)

// Free is which devices of a node nobody has.
type Free struct {
	groups []device.Group
	held   map[instance]holder
}

type instance struct {
	device.Kind
	id string
}

// holder has a device.
type holder struct {
	alloc  ids.Alloc
	job    ids.Job
	ending bool // it will be free when the alloc's processes are gone
}

// NewFree returns what a node has, of which nobody has anything yet.
func NewFree(n *node.Node) *Free {
	return &Free{groups: n.Resources.Devices, held: map[instance]holder{}}
}

// Hold notes what an alloc has, or that it is about to give it back: its processes may still use it.
func (f *Free) Hold(a *alloc.Alloc, ending bool) {
	for _, t := range a.Resources.Tasks { // in any order: each has a place of its own
		f.hold(t.Devices, holder{alloc: a.ID, job: a.Job, ending: ending})
	}
}

func (f *Free) hold(given []device.Given, by holder) {
	for _, g := range given {
		for _, id := range g.IDs {
			f.held[instance{g.Kind, id}] = by
		}
	}
}

// Put notes what an alloc of the plan gets.
func (f *Free) Put(id ids.Alloc, given map[string][]device.Given) {
	for _, g := range given { // in any order, as above
		f.hold(g, holder{alloc: id})
	}
}

// Takes reports whether an alloc can have what it was given: each instance is there, healthy, and nobody else's. Then
// it is its.
func (f *Free) Takes(a *alloc.Alloc) bool {
	for _, t := range a.Resources.Tasks { // in any order: one refusal is as good as another
		for _, g := range t.Devices {
			for _, id := range g.IDs {
				if _, held := f.held[instance{g.Kind, id}]; held || !f.healthy(g.Kind, id) {
					return false
				}
			}
		}
	}
	f.Hold(a, false)
	return true
}

func (f *Free) healthy(k device.Kind, id string) bool {
	for i := range f.groups {
		if f.groups[i].Kind() == k {
			return slices.ContainsFunc(f.groups[i].Instances, func(o device.Instance) bool {
				return o.ID == id && o.Healthy
			})
		}
	}
	return false
}

// Choice is what an alloc would get.
type Choice struct {
	Given map[string][]device.Given // by task
	// Score is how well that fits the affinities, in -1..1.
	Score float64
}

// most bounds how many combinations are looked at: a request that is served too late to find one waits.
const most = 1000

// Choose finds devices for all that is asked for; false: there are not enough. With assumeEnded what is about to be
// given back counts as free.
func (f *Free) Choose(a *Ask, assumeEnded bool) (Choice, bool) {
	if a == nil {
		return Choice{}, true
	}
	s := newSearch(f, a, assumeEnded)
	if !s.from(0) {
		return Choice{}, false
	}
	out := Choice{Given: map[string][]device.Given{}}
	sum := 0.0
	for i, w := range a.wants {
		out.Given[w.task] = append(out.Given[w.task], s.chosen[i])
		sum += s.weights[i]
	}
	if a.weights > 0 {
		out.Score = sum / a.weights
	}
	return out, true
}

// search serves wants one after the other, and goes back where one finds nothing any more.
type search struct {
	f           *Free
	ask         *Ask
	assumeEnded bool
	taken       map[instance]bool
	chosen      []device.Given
	weights     []float64
	left        int
}

func newSearch(f *Free, a *Ask, assumeEnded bool) *search {
	return &search{
		f:           f,
		ask:         a,
		assumeEnded: assumeEnded,
		taken:       map[instance]bool{},
		left:        most,
	}
}

func (s *search) from(i int) bool {
	if i == len(s.ask.wants) {
		return true
	}
	w := s.ask.wants[i]
	for _, g := range s.f.candidates(w) {
		if s.left--; s.left < 0 {
			return false
		}
		free := s.free(w, g)
		if len(free) < w.count {
			continue
		}
		given := device.Given{Kind: g.Kind(), IDs: free[:w.count]}
		s.mark(given, true)
		s.chosen, s.weights = append(s.chosen, given), append(s.weights, w.weight(g))
		if s.from(i + 1) {
			return true
		}
		s.chosen, s.weights = s.chosen[:i], s.weights[:i]
		s.mark(given, false)
	}
	return false
}

func (s *search) mark(g device.Given, taken bool) {
	for _, id := range g.IDs {
		s.taken[instance{g.Kind, id}] = taken
	}
}

// free lists the instances that may be given, by id.
func (s *search) free(w *want, g *device.Group) (out []string) {
	for i := range g.Instances {
		at := instance{g.Kind(), g.Instances[i].ID}
		by, held := s.f.held[at]
		if w.takes(&g.Instances[i]) && !s.taken[at] && (!held || s.assumeEnded && by.ending) {
			out = append(out, at.id)
		}
	}
	return out
}

// candidates are the kinds that are what is wanted, the best first.
func (f *Free) candidates(w *want) (out []*device.Group) {
	for i := range f.groups {
		if fits, _ := w.fits(&f.groups[i]); fits {
			out = append(out, &f.groups[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *device.Group) int { return cmp.Compare(w.weight(b), w.weight(a)) })
	return out
}

// Shortage says in words why Choose found nothing: what is asked for, how much of it is free, and who has the rest.
func (f *Free) Shortage(a *Ask, assumeEnded bool) (reason, hint string) {
	for _, w := range a.wants {
		free, healthy := 0, 0
		var by *holder
		s := newSearch(f, a, assumeEnded)
		for _, g := range f.candidates(w) {
			free = max(free, len(s.free(w, g)))
			for i := range g.Instances {
				if !w.takes(&g.Instances[i]) {
					continue
				}
				healthy++
				if h, held := f.held[instance{g.Kind(), g.Instances[i].ID}]; held && by == nil {
					by = &h
				}
			}
		}
		if free >= w.count {
			continue
		}
		reason = fmt.Sprintf("device %q: task %q asks %d of one kind, %d of %d healthy ones are free", w.name, w.task,
			w.count, free, healthy)
		if by == nil {
			return reason, "ask for less, or add nodes that have more"
		}
		return reason + "; " + by.String(), by.hint()
	}
	return "devices: there are enough for each request alone, and not for all of them together",
		"ask for less, or add nodes that have more"
}

// String says who has it.
func (h *holder) String() string {
	switch {
	case h.job == "":
		return "another allocation of this job has one"
	case h.ending:
		return fmt.Sprintf("alloc %.8s of job %q has one, and is being stopped", h.alloc, h.job)
	}
	return fmt.Sprintf("alloc %.8s of job %q has one", h.alloc, h.job)
}

func (h *holder) hint() string {
	if h.ending {
		return "this one is placed as soon as its processes are gone"
	}
	return "ask for less, stop that job, or add nodes that have more"
}

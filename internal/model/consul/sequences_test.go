package consul_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/model/consul"
)

// world is an agent of Consul and its catalog, as they were measured, and what registers services there. It is what the
// sequences on the real program are compared with.
type world struct {
	t      *rapid.T
	job    *consul.Service
	checks []consul.Check
	gen    int
	agent  map[string]*consul.Service
	status map[string]string // of checks, at the agent
	has    map[string][]string
	shown  map[string]*consul.Shown
	synced bool // the catalog shows what the agent has

	// In memory.
	sent map[string]*consul.Sent
	seen *consul.Shown // what the catalog was seen to show of the job's service, and was not dealt with
	lost bool          // the catalog lost it
	had  []string      // marks of tags that the job's service had
	held *consul.Shown // the tags that it had when Consul went away that has just come back
	past [][]string    // tags that its catalog showed
	// taken are those of them that anti-entropy took over before our agent sent them: no registration knows of them.
	taken [][]string

	tags          []string // the last writer's
	changes       int      // that ask for a registration at most once
	registrations int
	n             int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t:      t,
		agent:  map[string]*consul.Service{"stranger": {ID: "stranger", Tags: []string{"s"}}},
		status: map[string]string{},
		has:    map[string][]string{},
		shown:  map[string]*consul.Shown{},
		sent:   map[string]*consul.Sent{},
	}
	w.job = open("job0")
	w.checks = []consul.Check{{ID: "check"}}
	w.replace()
	return w
}

func (w *world) replace() {
	w.gen++
	next := *w.job
	next.ID = fmt.Sprintf("_berth-n-a%d-web", w.gen)
	w.job, w.tags = &next, w.job.Tags
	w.had = nil
	w.past, w.taken = nil, nil
	w.changes++
}

func (w *world) facts(id string) consul.Facts {
	f := consul.Facts{Agent: w.agent[id], Catalog: w.shown[id], Sent: w.sent[id], Has: w.has[id]}
	if id == w.job.ID {
		f.Wanted, f.Checks = w.job, w.checks
		f.Seen, f.Lost = w.seen, w.lost
		f.Had, f.Held = w.had, w.held
	}
	return f
}

// push is the agent's own: the catalog shows what it has.
func (w *world) push() {
	maps.DeleteFunc(w.shown, func(id string, _ *consul.Shown) bool { return w.agent[id] == nil })
	for id, s := range w.agent {
		w.shown[id] = &consul.Shown{Tags: s.Tags, Mark: s.Meta[consul.MetaMark]}
	}
	w.synced = true
}

// antiEntropy is what the agent does by itself every minute or two: of services with the flag it takes tags over.
func (w *world) antiEntropy() {
	for id, s := range w.agent {
		if c := w.shown[id]; c != nil && s.EnableTagOverride {
			next := *s
			next.Tags = c.Tags
			w.agent[id] = &next
		}
	}
	w.push()
}

// do makes a step; reach says how much of it: the registration alone, or what is remembered of it, too.
func (w *world) do(id string, s consul.Step, remembered bool) {
	if s.Deregister {
		delete(w.agent, id)
		delete(w.has, id)
		delete(w.sent, id)
		w.synced = false
		return
	}
	if s.Register != nil {
		w.registrations++
		w.agent[id] = s.Register
		w.synced = false
	}
	for _, c := range s.Add {
		w.has[id] = append(w.has[id], c.ID)
		w.status[id+c.ID] = consul.Critical
	}
	for _, gone := range s.Remove {
		w.has[id] = slices.DeleteFunc(w.has[id], func(c string) bool { return c == gone })
	}
	if remembered {
		w.sent[id] = s.Sent
	}
}

// pass brings everything to rest, as the keeper does at each event, while the agent pushes what it has. It looks again
// only when the catalog shows something else.
func (w *world) pass() {
	for range 10 {
		was := w.shown[w.job.ID]
		for _, id := range slices.Sorted(maps.Keys(w.agent)) {
			if consul.Own("n", id) && id != w.job.ID {
				w.do(id, consul.Next(w.facts(id)), true)
			}
		}
		f := w.facts(w.job.ID)
		s := consul.Next(f)
		w.do(w.job.ID, s, true)
		w.seen, w.lost = nil, false
		w.had = consul.Had(w.had, f.Agent)
		w.push()
		if now := w.shown[w.job.ID]; was != nil && now.Mark == was.Mark && consul.SameTags(now.Tags, was.Tags) {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}

func (w *world) quiet() {
	before := w.status[w.job.ID+"check"]
	w.pass()
	s, c := w.agent[w.job.ID], w.shown[w.job.ID]
	if !consul.SameTags(s.Tags, w.tags) || !consul.SameTags(c.Tags, w.tags) {
		w.t.Fatalf("the last writer's tags are %q, the agent has %q, the catalog shows %q", w.tags, s.Tags, c.Tags)
	}
	if len(w.agent) != 2 || w.agent["stranger"].Tags[0] != "s" {
		w.t.Fatalf("the agent has %v", slices.Collect(maps.Keys(w.agent)))
	}
	if w.registrations > w.changes {
		w.t.Fatalf("%d changes, %d registrations", w.changes, w.registrations)
	}
	if now := w.status[w.job.ID+"check"]; before != "" && now != before {
		w.t.Fatalf("a check was reset from %s to %s", before, now)
	}
	w.past = append(w.past, w.tags)
}

// beginAnew is a Consul that was killed: its agent reads the catalog while that is replayed, and so takes over tags of
// any moment before; whether it pushes them is a matter of that moment, too.
func (w *world) beginAnew() {
	s := w.agent[w.job.ID]
	w.held = &consul.Shown{Tags: w.tags}
	if s.EnableTagOverride {
		next := *s
		past := append(slices.Clone(w.past[max(0, len(w.past)-20):]), w.tags)
		next.Tags = rapid.SampledFrom(past).Draw(w.t, "older tags")
		w.agent[w.job.ID] = &next
		w.changes++ // what Consul took back is sent once more
		if rapid.Bool().Draw(w.t, "they are pushed") {
			w.push()
		}
	}
	w.quiet()
	w.held = nil
}

// forget is what our agent has in memory, at its end.
func (w *world) forget() {
	clear(w.sent)
	w.seen, w.lost = nil, false
	w.had = nil
	// It happens where no agent of ours ran for minutes, and leaves no trace.
	w.past = slices.DeleteFunc(w.past, func(past []string) bool {
		return slices.ContainsFunc(w.taken, func(taken []string) bool { return consul.SameTags(past, taken) })
	})
	w.taken = nil
}

func (w *world) fresh(who string) []string {
	w.n++
	return []string{fmt.Sprintf("%s%d", who, w.n), "z"}
}

// edit is somebody's, in the catalog.
func (w *world) edit() bool { return w.write(w.fresh("other")) }

// write is somebody's edit to these tags.
func (w *world) write(tags []string) bool {
	c := w.shown[w.job.ID]
	if s := w.agent[w.job.ID]; s == nil || c == nil || !s.EnableTagOverride || !w.job.EnableTagOverride {
		return false
	}
	if consul.Mark(w.job.Tags) != w.agent[w.job.ID].Meta[consul.MetaMark] {
		return false // an edit of the job is under way, and it would be judged who was last
	}
	w.tags = tags
	mark := c.Mark
	if rapid.Bool().Draw(w.t, "without our mark") {
		mark = ""
	}
	w.shown[w.job.ID] = &consul.Shown{Tags: w.tags, Mark: mark}
	w.changes++
	return true
}

func (w *world) editJob(change func(*consul.Service)) {
	next := *w.job
	change(&next)
	w.job = &next
	w.changes++
}

// flip is a check that turns: the agent pushes its service as it has it.
func (w *world) flip() {
	if len(w.has[w.job.ID]) > 0 {
		w.status[w.job.ID+"check"] = consul.Passing
	}
	w.push()
}

// TestWhateverHappensTheLastWritersTagsStay plays sequences of all that befalls services, with our agent killed and the
// catalog behind at any point between.
func TestWhateverHappensTheLastWritersTagsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.quiet()
		t.Repeat(map[string]func(*rapid.T){
			"somebody edits tags in the catalog": func(*rapid.T) { w.edit(); w.quiet() },
			"somebody writes earlier tags again": func(*rapid.T) {
				w.write(rapid.SampledFrom(append(slices.Clone(w.past), w.job.Tags)).Draw(t, "earlier tags"))
				w.quiet()
			},
			"somebody edits, and anti-entropy is faster": func(*rapid.T) {
				if w.edit() {
					w.taken = append(w.taken, w.tags)
				}
				w.antiEntropy()
				w.quiet()
			},
			"somebody edits, and a check turns before that is sent": func(*rapid.T) {
				if !w.edit() {
					return
				}
				w.seen = w.shown[w.job.ID]
				s := consul.Next(w.facts(w.job.ID))
				w.flip()
				if rapid.Bool().Draw(t, "before it is looked at") {
					w.quiet()
					return
				}
				w.do(w.job.ID, s, true)
				w.seen = nil
				if rapid.Bool().Draw(t, "anti-entropy comes first") {
					w.changes++ // what Consul took back is sent once more
					w.antiEntropy()
				}
				w.quiet()
			},
			"the catalog loses it": func(*rapid.T) {
				delete(w.shown, w.job.ID)
				w.lost = true
				w.changes++
				w.quiet()
			},
			"a check turns": func(*rapid.T) { w.flip(); w.quiet() },
			"an unrelated job comes": func(*rapid.T) {
				before := w.registrations
				w.agent["_berth-n-b-other"] = &consul.Service{ID: "_berth-n-b-other"}
				w.quiet()
				if w.registrations != before {
					t.Fatal("it was registered anew for a stranger's sake")
				}
			},
			"our agent is restarted": func(*rapid.T) { w.forget(); w.quiet() },
			"our agent is killed after it has registered": func(*rapid.T) {
				if rapid.Bool().Draw(t, "an edit of the job") {
					w.tags = w.fresh("job")
					w.editJob(func(s *consul.Service) { s.Tags = w.tags })
				} else {
					w.edit()
				}
				w.do(w.job.ID, consul.Next(w.facts(w.job.ID)), false)
				w.forget()
				w.quiet()
			},
			"Consul is restarted":    func(*rapid.T) { w.antiEntropy(); w.quiet() },
			"Consul begins anew":     func(*rapid.T) { w.beginAnew() },
			"an audit":               func(*rapid.T) { w.quiet() },
			"the job edits its port": func(*rapid.T) { w.editJob(func(s *consul.Service) { s.Port++ }); w.quiet() },
			"the job edits its tags": func(*rapid.T) {
				w.tags = w.fresh("job")
				w.editJob(func(s *consul.Service) { s.Tags = w.tags })
				w.quiet()
			},
			"the job edits its tags, and anti-entropy takes the older ones": func(*rapid.T) {
				w.tags = w.fresh("job")
				w.editJob(func(s *consul.Service) { s.Tags = w.tags })
				w.do(w.job.ID, consul.Next(w.facts(w.job.ID)), true)
				if w.job.EnableTagOverride {
					w.changes++ // what Consul took back is sent once more
				}
				w.antiEntropy()
				w.quiet()
			},
			"the flag is toggled": func(*rapid.T) {
				w.editJob(func(s *consul.Service) { s.EnableTagOverride = !s.EnableTagOverride })
				w.tags = w.job.Tags
				w.quiet()
			},
			"the alloc is replaced": func(*rapid.T) { w.replace(); w.quiet() },
		})
	})
}

package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// finish judges what can be told only at the end.
func (w *world) finish() {
	for _, o := range w.observers {
		if f, ok := o.(interface{ finish(*world) }); ok {
			f.finish(w)
		}
	}
	for _, r := range w.facts.Rest.list {
		rest(w, r)
	}
	secrecy(w)
}

// rest judges invariant I9: nothing is left when all jobs have stopped.
func rest(w *world, r Rest) {
	var left []string
	for p, is := range w.attached {
		left = append(left, fmt.Sprintf("%q attached to %q (%s)", p.id, p.node, is))
	}
	for p, is := range w.staged {
		if w.fenced[p] {
			continue // it went with the node that cannot write any more
		}
		left = append(left, fmt.Sprintf("%q staged on %q (%s)", p.id, p.node, is))
	}
	for s, is := range w.published {
		if w.fenced[s.place] {
			continue
		}
		left = append(left, fmt.Sprintf("%q published at %s on %q (%s)", s.id, s.target, s.node, is))
	}
	slices.Sort(left)
	for _, text := range left {
		w.violate("I9", w.last, "at rest there is still %s", text)
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"mounts", r.Mounts}, {"directories", r.Dirs}, {"claims", r.Claims}, {"attachments", r.Attachments}} {
		if len(l.list) > 0 {
			w.violate("I9", w.last, "at rest there are still %s: %s", l.name, strings.Join(l.list, ", "))
		}
	}
}

// secrecy judges invariant I13: no secret shows in what people or tasks can read.
func secrecy(w *world) {
	for _, t := range w.facts.Texts.list {
		for i, s := range w.facts.Secrets.list {
			if s != "" && strings.Contains(t.Text, s) {
				w.violate("I13", w.last, "secret number %d shows in %s", i+1, t.Where)
			}
		}
	}
}

// ended judges invariant I21: an agent ends only what the state that it follows knows, or what a person says.
func ended(w *world, e End) {
	if !e.Known && e.By == "" {
		w.violate("I21", moment(e.At, "an agent ends an alloc", e.Node),
			"alloc %s was ended, though the servers' state merely does not know it", e.Alloc)
	}
}

// strays judges invariant I18: every file is where it was written, and none beneath a mount.
func strays(w *world, s Stray) {
	w.violate("I18", moment(s.At, "stray", ""), "%s %s", s.Path, s.What)
}

// starts judges invariant I22: what an older agent start of a node does changes nothing.
type starts struct{ newest map[string]uint64 }

func (s *starts) obeyed(w *world, o Obeyed) {
	if newest := s.newest[o.Node]; o.Start < newest {
		w.violate("I22", moment(o.At, o.What, o.Node), "a %s of agent start %d took effect after one of start %d",
			o.What, o.Start, newest)
		return
	}
	s.newest[o.Node] = o.Start
}

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/volume"
)

// eval runs an evaluation and tells its plan in sentences.
func (s *script) eval(e *eval.Eval) []string {
	before := maps.Clone(s.w.allocs)
	again, _ := Schedule(s.w.view(), e, s.w.now)
	p, x := s.w.schedule(e)
	if tell(again, before, s.w) == nil && len(again.Place) != len(p.Place) {
		s.t.Fatalf("the same evaluation of the same state made two plans")
	}
	out := tell(p, before, s.w)
	for _, g := range sortedNames(x.Failed) {
		m := x.Failed[g]
		out = append(out,
			fmt.Sprintf("no place for %d of %s (%d nodes looked at)", 1+m.CoalescedFailures, g, m.NodesEvaluated))
		for _, k := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
			out = append(out, fmt.Sprintf("  filtered: %s: %d", k, m.ConstraintFiltered[k]))
		}
		for _, k := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
			out = append(out, fmt.Sprintf("  exhausted: %s: %d", k, m.DimensionExhausted[k]))
		}
		for _, r := range m.Reasons {
			line := fmt.Sprintf("  %s: %s", r.Name, s.readable(r.Reason))
			if r.Hint != "" {
				line += " (" + r.Hint + ")"
			}
			out = append(out, line)
		}
	}
	if p.Eval.Status != eval.StatusComplete || p.Eval.StatusDescription != "" {
		out = append(out, fmt.Sprintf("evaluation %s: %s", p.Eval.Status, s.readable(p.Eval.StatusDescription)))
	}
	if len(out) == 0 {
		return []string{"nothing to do"}
	}
	return out
}

// readable replaces the ids of allocs by their names.
func (s *script) readable(text string) string {
	for id, a := range s.w.allocs {
		text = strings.ReplaceAll(text, ids.Short(id), a.Name)
	}
	return text
}

func tell(p Plan, before map[ids.Alloc]*alloc.Alloc, w *world) []string {
	var out []string
	stops := slices.Clone(p.Stop)
	slices.SortFunc(stops, func(a, b Stop) int {
		x, y := before[a.Alloc], before[b.Alloc]
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Node, y.Node),
			cmp.Compare(x.CreateIndex, y.CreateIndex))
	})
	for _, s := range stops {
		a := before[s.Alloc]
		verb := "stop"
		if s.Lost {
			verb = "lose"
		}
		out = append(out, fmt.Sprintf("%s %s on %s: %s", verb, a.Name, a.Node, s.Description))
	}
	for _, a := range p.InPlace {
		out = append(out, fmt.Sprintf("update %s on %s in place to version %d", a.Name, a.Node, a.JobVersion))
	}
	for _, pl := range p.Place {
		a := pl.Alloc
		line := fmt.Sprintf("place %s on %s", a.Name, a.Node)
		if a.Canary {
			line += " as a canary"
		}
		if j := w.jobs[a.Job]; a.JobVersion != j.Version {
			line += fmt.Sprintf(" of version %d", a.JobVersion)
		}
		if pl.Ends != nil {
			old := before[pl.Ends.Alloc]
			line += fmt.Sprintf(", stop its predecessor on %s: %s", old.Node, pl.Ends.Description)
		} else if a.PreviousAlloc != "" {
			line += fmt.Sprintf(", after one on %s", before[a.PreviousAlloc].Node)
		}
		for _, p := range a.Resources.Ports {
			line += fmt.Sprintf(", port %d", p.Value)
		}
		for _, c := range pl.Claims {
			line += fmt.Sprintf(", volume %s %s", c.Volume.ID, c.State)
		}
		out = append(out, line)
	}
	for _, r := range p.Retry {
		e := w.evals[r.Eval]
		if e == nil {
			continue
		}
		out = append(out, fmt.Sprintf("retry %s in %s", before[r.Alloc].Name, e.WaitUntil.Sub(w.now)))
	}
	return out
}

func (s *script) evals(id ids.Job) []string {
	count := map[string]int{}
	for _, e := range s.w.JobEvals("", id) {
		count[e.Status+" "+e.TriggeredBy]++
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s", count[k], k))
	}
	return out
}

func (s *script) allocs(id ids.Job) []string {
	var out []string
	for _, a := range s.w.live(id) {
		out = append(out, fmt.Sprintf("%s on %s v%d %s", a.Name, a.Node, a.JobVersion, a.ClientStatus))
	}
	if out == nil {
		return []string{"none"}
	}
	return out
}

func (s *script) claims(id ids.Volume) []string {
	var out []string
	for _, c := range s.w.Claims(volume.ID{Namespace: ids.DefaultNamespace, ID: id}) {
		out = append(out, fmt.Sprintf("%s on %s: %s", s.w.allocs[c.Alloc].Name, c.Node, c.State))
	}
	slices.Sort(out)
	if out == nil {
		return []string{"free"}
	}
	return out
}

// Package devices owns which devices of a node a task gets: what a group asks for, which kinds and instances answer to
// that, and which of them are free. It is deterministic. The scheduler, the planner and what makes volumes for jobs
// import it.
package devices

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/scheduler/filter"
)

// Names by which clients of the API know why a node was refused, and what an affinity to devices counts.
const (
	KeyMissing = "missing devices"
	Dimension  = "devices"
	Score      = "devices"
)

// Ask is what the tasks of one alloc of a group want. Nil: nothing.
type Ask struct {
	wants   []*want
	weights float64 // of all affinities
}

// want is one request of a task.
type want struct {
	task        string
	name        string
	count       int
	constraints []rule
	affinities  []rule
}

// rule is a constraint or an affinity.
type rule struct {
	left, right, operand string
	text                 filter.Test // of texts
	broken               error
	weight               float64
}

// NewAsk reads a group.
func NewAsk(g *job.TaskGroup) *Ask {
	a := &Ask{}
	for _, t := range g.Tasks {
		if t.Resources == nil {
			continue
		}
		for _, d := range t.Resources.Devices {
			w := &want{task: t.Name, name: d.Name, count: int(min(max(d.Count, 1), 1<<20))}
			for _, c := range d.Constraints {
				w.constraints = append(w.constraints, newRule(c.LTarget, c.Operand, c.RTarget, 0))
			}
			for _, f := range d.Affinities {
				w.affinities = append(w.affinities, newRule(f.LTarget, f.Operand, f.RTarget, float64(f.Weight)))
				a.weights += max(float64(f.Weight), -float64(f.Weight))
			}
			a.wants = append(a.wants, w)
		}
	}
	if len(a.wants) == 0 {
		return nil
	}
	// What says more of what it wants is served first: it has less to choose from.
	slices.SortStableFunc(a.wants, func(x, y *want) int {
		return cmp.Or(strings.Count(y.name, "/")-strings.Count(x.name, "/"), len(y.constraints)-len(x.constraints))
	})
	return a
}

func newRule(left, operand, right string, weight float64) rule {
	r := rule{left: left, right: right, operand: operand, weight: weight}
	r.text, r.broken = filter.NewTest(operand, filter.Literal(right))
	return r
}

// Weighs reports whether it matters which devices are given.
func (a *Ask) Weighs() bool { return a != nil && a.weights > 0 }

// String names the constraint as people wrote it.
func (r *rule) String() string {
	op := r.operand
	if op == "" {
		op = "="
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.left, op, r.right))
}

// idsTarget stands for the ids of instances. What is said of it is said of each instance.
const idsTarget = "${device.ids}"

// value is what a side of a rule stands for, of one kind.
func value(text string, g *device.Group) (device.Value, bool) {
	inner, ok := strings.CutPrefix(text, "${device.")
	if !ok || !strings.HasSuffix(inner, "}") {
		return device.ParseValue(text), true
	}
	inner = strings.TrimSuffix(inner, "}")
	if name, ok := strings.CutPrefix(inner, "attr."); ok {
		v, has := g.Attributes[name]
		return v, has
	}
	switch inner {
	case "vendor":
		return device.Value{String: &g.Vendor}, true
	case "type":
		return device.Value{String: &g.Type}, true
	case "model":
		return device.Value{String: &g.Name}, true
	}
	return device.Value{}, false
}

// holds reports whether a rule holds of a kind. One about ids holds of all kinds.
func (r *rule) holds(g *device.Group) bool {
	if r.broken != nil {
		return false
	}
	if r.left == idsTarget {
		return true
	}
	left, hasLeft := value(r.left, g)
	right, hasRight := value(r.right, g)
	if hasLeft && hasRight {
		if order, ok := device.Compare(left, right); ok {
			switch r.operand {
			case "", "=", "==", "is":
				return order == 0
			case "!=", "not":
				return order != 0
			case "<":
				return order < 0
			case "<=":
				return order <= 0
			case ">":
				return order > 0
			case ">=":
				return order >= 0
			}
		}
		switch r.operand {
		case "<", "<=", ">", ">=":
			return false // bytes are not more than hertz
		}
	}
	text := r.right
	if strings.HasPrefix(r.right, "${") {
		text = right.Text()
	}
	return r.text(left.Text(), hasLeft, text, hasRight)
}

// names reports whether a rule about ids holds of an instance.
func (r *rule) names(id string) bool {
	switch {
	case r.left != idsTarget:
		return true
	case r.broken != nil:
		return false
	case strings.HasPrefix(r.operand, "set_contains"):
		return slices.ContainsFunc(strings.Split(r.right, ","), func(s string) bool {
			return strings.TrimSpace(s) == id
		})
	}
	return r.text(id, true, r.right, true)
}

// fits reports whether a kind is what is wanted, and otherwise which constraint does not hold; nil: the name is
// another.
func (w *want) fits(g *device.Group) (fits bool, broken *rule) {
	if !g.Kind().Matches(w.name) {
		return false, nil
	}
	for i := range w.constraints {
		if !w.constraints[i].holds(g) {
			return false, &w.constraints[i]
		}
	}
	return true, nil
}

// takes reports whether an instance may be given.
func (w *want) takes(i *device.Instance) bool {
	return i.Healthy && !slices.ContainsFunc(w.constraints, func(r rule) bool { return !r.names(i.ID) })
}

// weight is what a kind is worth, by the affinities.
func (w *want) weight(g *device.Group) float64 {
	sum := 0.0
	for i := range w.affinities {
		if w.affinities[i].holds(g) {
			sum += w.affinities[i].weight
		}
	}
	return sum
}

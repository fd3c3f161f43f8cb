// Package oracle owns the judgement over a record of CSI calls: which of the invariants of docs/INVARIANTS.md an
// orchestrator has broken. It is a pure function of the record and of facts that only a test knows. Tests import it,
// mostly through csitest; so will what authors of plugins run.
package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// Violation is one broken invariant.
type Violation struct {
	Invariant string // as docs/INVARIANTS.md numbers them
	Text      string
	Entry     proxy.Entry // where it shows
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s\n    at %s", v.Invariant, v.Text, v.Entry)
}

// observer judges one thing while the record goes by.
type observer interface {
	begin(w *world, c *call)
	end(w *world, c *call)
	mark(w *world, e proxy.Entry)
}

// event is an entry of the record, or a fact at a moment, on one time line.
type event struct {
	at    time.Time
	entry proxy.Entry
	judge func(w *world) // instead of an entry
}

// Check goes through a record and returns what was broken, in the order of time. Several proxies may have written it.
// The error names facts without a source, and known defects that have shown nothing: both are errors of the test.
func Check(record []proxy.Entry, facts Facts) ([]Violation, error) {
	if err := errors.Join(facts.fed(), facts.observed(record)); err != nil {
		return nil, err
	}
	var events []event
	for _, e := range record {
		events = append(events, event{at: e.Time, entry: e})
	}
	events = append(events, facts.moments()...)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	w := newWorld(facts)
	for _, e := range events {
		if e.judge != nil {
			e.judge(w)
		} else {
			w.step(e.entry)
		}
	}
	w.finish()
	slices.SortStableFunc(w.found, func(a, b Violation) int {
		return cmp.Compare(a.Entry.Time.UnixNano(), b.Entry.Time.UnixNano())
	})
	return excuse(w.found, facts.Defects)
}

// excuse takes out what known defects explain, and names the defects that explain nothing.
func excuse(found []Violation, known []Defect) (left []Violation, err error) {
	shown := map[string]bool{}
	for _, v := range found {
		i := slices.IndexFunc(known, func(d Defect) bool {
			return d.Invariant == v.Invariant && strings.Contains(v.Text, d.Shows)
		})
		if i < 0 {
			left = append(left, v)
			continue
		}
		shown[known[i].Name] = true
	}
	for _, d := range known {
		if !shown[d.Name] {
			err = errors.Join(err, fmt.Errorf(
				"the known defect %q (%s) shows nothing: if it is cured, take it out of the test", d.Name, d.Invariant))
		}
	}
	return left, err
}

// call is one call between its begin and its end.
type call struct {
	proxy.Entry // the begin, then the end
	rpc         csi.RPC
	begun       time.Time
	first       proxy.Entry // the begin
	excused     bool        // its caller crashed, so that it may overlap
	prior       presence    // of what it makes or unmakes, when it began
}

func (c *call) ok() bool { return c.Code == "OK" }

func (c *call) controller() bool { return c.rpc.Service() == csi.ControllerService }

func (c *call) node() bool { return c.rpc.Service() == csi.NodeService }

// Package oracle owns the judgement over a record of CSI calls: which of the invariants of docs/INVARIANTS.md an
// orchestrator has broken. It is a pure function of the record and of facts that only a test knows. Tests import it,
// mostly through csitest; so will what authors of plugins run.
package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// Facts are what the record cannot tell.
type Facts struct {
	Processes []Process     // invariant I5
	Claims    []Claim       // invariant I8
	Tasks     []TaskStart   // invariant I17
	Quiet     []Quiet       // invariant I20
	Final     *Final        // invariants I9 and I10: judged only when it is set
	MinPause  time.Duration // invariant I11: the least pause before a retry; 0 means 20 ms
}

// Process says that a process of an alloc was alive and using a publication; a zero To means to the end of the record.
type Process struct {
	Node, Target string
	From, To     time.Time
}

// Claim says that somebody held a right to a volume or knew it under another registration.
type Claim struct {
	Plugin, Volume string
	From, To       time.Time
	What           string // "claim of alloc 1", "registration \"y\""
}

// TaskStart says that a task began to use a publication, and what the mount table said at that moment.
type TaskStart struct {
	At           time.Time
	Node, Target string
	Mounted      bool // the target was mounted, with the recorded source, read-only as decided
}

// Quiet is a time in which nothing was wanted: whatever restarted in it must not have changed anything.
type Quiet struct{ From, To time.Time }

// Final is the world after all jobs have stopped and 5 s have passed.
type Final struct {
	Mounts  []string // mount points left beneath the agents' directories
	Dirs    []string // directories left there
	Claims  int
	Backend []string // volumes and snapshots that the provider has; compared with Known when either is set
	Known   []string // those that the orchestrator knows
}

// Violation is one broken invariant.
type Violation struct {
	Invariant string // "I3", as docs/INVARIANTS.md numbers them
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

// event is an entry or a task's start, on one time line.
type event struct {
	at    time.Time
	entry proxy.Entry
	task  *TaskStart
}

// Check goes through a record and returns what was broken, in the order of time. Several proxies may have written it.
func Check(record []proxy.Entry, facts Facts) []Violation {
	events := make([]event, 0, len(record)+len(facts.Tasks))
	for _, e := range record {
		events = append(events, event{at: e.Time, entry: e})
	}
	for _, t := range facts.Tasks {
		events = append(events, event{at: t.At, task: &t})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	w := newWorld(facts)
	for _, e := range events {
		w.step(e)
	}
	w.finish()
	slices.SortStableFunc(w.found, func(a, b Violation) int {
		return cmp.Compare(a.Entry.Time.UnixNano(), b.Entry.Time.UnixNano())
	})
	return w.found
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

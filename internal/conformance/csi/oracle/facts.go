package oracle

import (
	"time"

	"berth/internal/conformance/csi/proxy"
)

// Facts are what the record cannot tell. Each needs a source, or the word that there is none of it and why.
type Facts struct {
	Processes Around         // invariant I5: Observation.Living of every NodeUnpublishVolume
	Holders   Around         // invariant I8: Observation.Holders of every DeleteVolume
	Writers   Around         // invariant I14: Observation.Writers of calls that bring a single-node volume to a node
	Tasks     Fed[TaskStart] // invariant I17
	Shown     Fed[Shown]     // invariants I16 and I24
	Works     Fed[Work]      // invariant I15
	Secrets   Fed[string]    // invariant I13: values that nobody may see
	Texts     Fed[Text]      // invariant I13: where they must not be
	Strays    Fed[Stray]     // invariant I18
	Ends      Fed[End]       // invariant I21
	Obeyed    Fed[Obeyed]    // invariant I22
	Quiet     Fed[Quiet]     // invariant I20
	Provider  Fed[Thing]     // invariant I10: what the provider has at the end
	Records   Fed[Record]    // invariant I10: what the orchestrator knows at the end
	Rest      Fed[Rest]      // invariant I9: the world after all jobs have stopped

	MinPause time.Duration // invariant I11: the least pause before a retry; 0 means 20 ms
	Release  time.Duration // invariant I24: the time in which a release ends; 0 means 5 s
	Defects  []Defect      // what is known to be broken, and excused until it is cured
}

// Defect is a fault of the orchestrator that is known. What it shows is excused; one that shows nothing is an error.
type Defect struct {
	Name      string // what is wrong, for people
	Invariant string
	Shows     string // part of the violation's text
}

// TaskStart says that a task began to use a publication, and what the mount table said at that moment.
type TaskStart struct {
	At           time.Time
	Node, Target string
	Mounted      bool // the target was mounted, with the recorded source, read-only as decided
}

// Shown is a claim or an attachment as the API showed it at a moment.
type Shown struct {
	At      time.Time
	What    string   // "claim of alloc 1 on volume db"
	Volume  string   // volume id at the provider
	Owner   string   // the alloc that it is for
	Missing []string // what it refers to and does not exist
	State   string
	Since   time.Time // of the state
	Passing bool      // the state has to end
	Reason  string    // what a passing state waits for
	Tries   int       // that failed
	Last    string    // error of the last
	Next    time.Time // the next try
	Free    time.Time // a passing state that nothing holds up: since when
}

// Work is something that somebody asked for and that has ended: what a plugin that hangs must not delay.
type Work struct {
	What     string
	Volume   string // volume id at the provider that it is about; empty: none
	From, To time.Time
	Limit    time.Duration // how long it may take when nothing of its own hangs
}

// Text is something that people or tasks can read.
type Text struct{ Where, Text string }

// Stray is a file that is where it must not be, or is gone from where it must be.
type Stray struct {
	At   time.Time
	Path string
	What string // "lies beneath an unmounted target", "was deleted through a mount"
}

// End is the end that an agent gave to an alloc.
type End struct {
	At          time.Time
	Node, Alloc string
	Known       bool   // to the servers' state that the agent followed, or that state removed it itself
	By          string // the person that ended it; empty: nobody did
}

// Obeyed is an act that took effect under an agent start of a node.
type Obeyed struct {
	At    time.Time
	Node  string
	Start uint64 // grows with each agent start
	What  string // "report", "request", "result"
}

// Quiet is a time in which nothing was wanted: whatever restarted in it must not have changed anything.
type Quiet struct {
	From, To time.Time
	// Restored: an older state took the place of the servers' in it. What that knows of attachments may not be so: each
	// is asked for anew, which changes nothing where it is there.
	Restored bool
}

// Thing is a volume or snapshot at the provider.
type Thing struct{ ID, Name string }

// Record is a volume or snapshot that the orchestrator knows. One that is passing is being made or deleted.
type Record struct {
	ID, Name string
	Passing  bool
}

// Rest is the world after all jobs have stopped and 5 s have passed.
type Rest struct {
	Mounts      []string // mount points left beneath the agents' directories
	Dirs        []string // directories left there
	Claims      []string // that the servers still have
	Attachments []string
}

// moments are the facts that are judged at their place among the calls.
func (f *Facts) moments() (out []event) {
	for _, t := range f.Tasks.list {
		out = append(out, event{at: t.At, judge: func(w *world) { w.tasks.started(w, t) }})
	}
	for _, s := range f.Shown.list {
		out = append(out, event{at: s.At, judge: func(w *world) { w.waits.shown(w, s) }})
	}
	for _, k := range f.Works.list {
		out = append(out, event{at: k.To, judge: func(w *world) { w.hangs.done(w, k) }})
	}
	for _, s := range f.Strays.list {
		out = append(out, event{at: s.At, judge: func(w *world) { strays(w, s) }})
	}
	for _, e := range f.Ends.list {
		out = append(out, event{at: e.At, judge: func(w *world) { ended(w, e) }})
	}
	for _, o := range f.Obeyed.list {
		out = append(out, event{at: o.At, judge: func(w *world) { w.starts.obeyed(w, o) }})
	}
	return out
}

// moment is where a fact shows.
func moment(at time.Time, what, node string) proxy.Entry {
	return proxy.Entry{
		Time: at,
		Kind: proxy.Marked,
		Text: what,
		Node: node,
	}
}

// within reports whether t lies in a span; a zero end is open.
func within(t, from, to time.Time) bool {
	return !t.Before(from) && (to.IsZero() || t.Before(to))
}

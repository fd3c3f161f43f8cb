package entry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	knowledges = []Knowledge{Nothing, Outdated, Underway, Current}
	events     = map[Event]string{
		Changed:   "changed",
		Described: "described",
		Writing:   "writing",
		Written:   "written",
		Unwritten: "unwritten",
		Erased:    "erased",
		Reporting: "reporting",
		Answered:  "answered",
		Dropped:   "dropped",
	}
)

// TestTheRecordsTranscript writes down, for people to read, what every event makes of every record, and the fate of
// each.
func TestTheRecordsTranscript(t *testing.T) {
	var b strings.Builder
	for _, disk := range knowledges {
		for _, servers := range knowledges {
			r := Record{disk, servers}
			fmt.Fprintf(&b, "disk %s, servers %s: busy %s, quiet %s\n", disk, servers, r.Fate(false), r.Fate(true))
			for e := Changed; e <= Dropped; e++ {
				if next := r.On(e); next != r {
					fmt.Fprintf(&b, "  %-10s disk %s, servers %s\n", events[e], next.Journal, next.Servers)
				}
			}
		}
	}
	path := filepath.Join("testdata", "record_flow.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the flow does something else than %s says; look at the difference after -update", path)
	}
}

// TestTheRecordsLawForEveryStateAndEvent: what nobody has is never learned but by giving it, knowledge is never current
// after a change, and an entry that is busy, or that the servers may have, is never given up.
func TestTheRecordsLawForEveryStateAndEvent(t *testing.T) {
	for _, disk := range knowledges {
		for _, servers := range knowledges {
			r := Record{disk, servers}
			if f := r.Fate(false); f == Erase || f == Forget {
				t.Errorf("%v is busy: %s", r, f)
			}
			if f := r.Fate(true); (f == Erase || f == Forget) && servers != Nothing {
				t.Errorf("%v: %s although the servers may have it", r, f)
			}
			if f := r.Fate(true); f == Forget && disk != Nothing {
				t.Errorf("%v: forgotten although the disk may have it", r)
			}
			for _, full := range []bool{false, true} {
				if !r.Named(full, false) && (full || servers != Current) ||
					!r.Named(full, true) && servers != Nothing && (full || servers != Current) {
					t.Errorf("%v: nothing is reported to the servers", r)
				}
			}
			for e := range events {
				n := r.On(e)
				if disk == Nothing && n.Journal != Nothing && e != Writing ||
					servers == Nothing && n.Servers != Nothing && e != Reporting {
					t.Errorf("%v after %s: %v, out of nothing", r, events[e], n)
				}
				if e == Changed && (n.Journal > Outdated || n.Servers > Outdated) {
					t.Errorf("%v after a change: %v", r, n)
				}
				if n.Journal == Current && disk != Current && (e != Written || disk != Underway) {
					t.Errorf("%v after %s: the disk is current", r, events[e])
				}
				if n.Servers == Current && servers != Current && (e != Answered || servers != Underway) {
					t.Errorf("%v after %s: the servers are current", r, events[e])
				}
				if n.Servers == Nothing && servers != Nothing && (e != Dropped || servers != Underway) {
					t.Errorf("%v after %s: the servers are believed to have nothing", r, events[e])
				}
			}
		}
	}
}

// content is what somebody has of an entry.
type content uint8

const (
	none content = iota // no entry
	quiet
	busy
)

// truth is what really is, beside what the record says.
type truth struct {
	record  Record
	entry   content // in memory; none: the keeper has forgotten it
	disk    content
	servers content // they keep nothing quiet
	write   content // under way; none: there is no write
	erase   bool    // under way
	report  content // under way
}

// keep is what servers keep of a report.
func (c content) keep() content {
	if c == busy {
		return busy
	}
	return none
}

// next lists what may happen in a world: to the entry, to the keeper's writes and reports, and to the machine.
func (w truth) next() (out []truth) {
	add := func(e Event, fn func(*truth)) {
		n := w
		fn(&n)
		n.record = n.record.On(e)
		out = append(out, n)
	}
	for _, c := range []content{quiet, busy} {
		add(Changed, func(n *truth) { n.entry = c })
	}
	idle := w.write == none && !w.erase
	f := w.record.Fate(w.entry == quiet)
	if idle && (f == Save || w.entry == busy && w.record.Journal != Current) {
		add(Writing, func(n *truth) { n.write = n.entry })
	}
	if w.write != none {
		add(Written, func(n *truth) { n.disk, n.write = w.write, none })
		failed := Unwritten
		if w.disk == none {
			failed = Erased
		}
		add(failed, func(n *truth) { n.write = none })
	}
	if idle && f == Erase {
		n := w
		n.erase = true
		out = append(out, n)
	}
	if w.erase {
		add(Erased, func(n *truth) { n.disk, n.erase = none, false })
		n := w
		n.erase = false // it failed
		out = append(out, n)
	}
	if w.report == none && w.record.Named(true, w.entry == quiet) {
		add(Reporting, func(n *truth) { n.report = max(w.entry, w.disk) })
	}
	if w.report != none {
		e := Answered
		if w.report == quiet {
			e = Dropped
		}
		add(e, func(n *truth) { n.servers, n.report = w.report.keep(), none })
		lost, unanswered := w, w
		lost.report = none
		unanswered.servers, unanswered.report = w.report.keep(), none
		out = append(out, lost, unanswered)
	}
	if w.disk != none { // a crash; an entry that was not saved is dropped by the full report of the next run
		out = append(out, truth{record: LoadedRecord, entry: w.disk, disk: w.disk, servers: w.servers})
	}
	return out
}

// TestNothingIsForgottenThatServersOrPluginMayStillHave walks through every world that can come about.
func TestNothingIsForgottenThatServersOrPluginMayStillHave(t *testing.T) {
	begin := truth{entry: busy}
	from := map[truth]truth{begin: {}}
	for queue := []truth{begin}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		f := w.record.Fate(w.entry == quiet)
		if f == Forget && (w.servers != none || w.report == busy || w.disk != none) ||
			f == Erase && (w.servers != none || w.disk != quiet) {
			for at := w; at != (truth{}); at = from[at] {
				t.Logf("%+v", at)
			}
			t.Fatalf("%s, but somebody has it; the way there, backwards, is above", f)
		}
		if f == Forget {
			continue
		}
		ends(t, w)
		for _, n := range w.next() {
			if _, known := from[n]; !known {
				from[n] = w
				queue = append(queue, n)
			}
		}
	}
	t.Logf("%d worlds", len(from))
}

// ends checks that an entry which stays quiet is forgotten once writes and reports get through.
func ends(t *testing.T, begin truth) {
	t.Helper()
	w := begin
	if w.entry != quiet {
		w.entry, w.record = quiet, w.record.On(Changed)
	}
	for range 20 {
		switch f := w.record.Fate(true); {
		case w.write != none:
			w.disk = w.write
			w.write = none
			w.record = w.record.On(Written)
		case w.erase:
			w.disk = none
			w.erase = false
			w.record = w.record.On(Erased)
		case w.report != none:
			e := Answered
			if w.report == quiet {
				e = Dropped
			}
			w.servers = w.report.keep()
			w.report = none
			w.record = w.record.On(e)
		case f == Forget:
			return
		case f == Save:
			w.write, w.record = quiet, w.record.On(Writing)
		case f == Erase:
			w.erase = true
		case w.record.Named(false, true):
			w.report, w.record = max(w.entry, w.disk), w.record.On(Reporting)
		default:
			t.Fatalf("from %+v it stays for ever: %+v", begin, w)
		}
	}
	t.Fatalf("from %+v it does not end: %+v", begin, w)
}

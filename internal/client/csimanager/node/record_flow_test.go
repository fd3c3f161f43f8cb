package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	knowledges = []knowledge{nothing, outdated, underway, current}
	events     = map[event]string{
		changed:   "changed",
		described: "described",
		writing:   "writing",
		written:   "written",
		unwritten: "unwritten",
		erased:    "erased",
		reporting: "reporting",
		answered:  "answered",
		dropped:   "dropped",
	}
)

// TestTheRecordsTranscript writes down, for people to read, what every event makes of every record, and the fate of
// each.
func TestTheRecordsTranscript(t *testing.T) {
	var b strings.Builder
	for _, disk := range knowledges {
		for _, servers := range knowledges {
			r := record{disk, servers}
			fmt.Fprintf(&b, "disk %s, servers %s: busy %s, quiet %s\n", disk, servers, r.fate(false), r.fate(true))
			for e := changed; e <= dropped; e++ {
				if next := r.on(e); next != r {
					fmt.Fprintf(&b, "  %-10s disk %s, servers %s\n", events[e], next.disk, next.servers)
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
			r := record{disk, servers}
			if f := r.fate(false); f == erase || f == forget {
				t.Errorf("%v is busy: %s", r, f)
			}
			if f := r.fate(true); (f == erase || f == forget) && servers != nothing {
				t.Errorf("%v: %s although the servers may have it", r, f)
			}
			if f := r.fate(true); f == forget && disk != nothing {
				t.Errorf("%v: forgotten although the disk may have it", r)
			}
			for _, full := range []bool{false, true} {
				if !r.named(full, false) && (full || servers != current) ||
					!r.named(full, true) && servers != nothing && (full || servers != current) {
					t.Errorf("%v: nothing is reported to the servers", r)
				}
			}
			for e := range events {
				n := r.on(e)
				if disk == nothing && n.disk != nothing && e != writing ||
					servers == nothing && n.servers != nothing && e != reporting {
					t.Errorf("%v after %s: %v, out of nothing", r, events[e], n)
				}
				if e == changed && (n.disk > outdated || n.servers > outdated) {
					t.Errorf("%v after a change: %v", r, n)
				}
				if n.disk == current && disk != current && (e != written || disk != underway) {
					t.Errorf("%v after %s: the disk is current", r, events[e])
				}
				if n.servers == current && servers != current && (e != answered || servers != underway) {
					t.Errorf("%v after %s: the servers are current", r, events[e])
				}
				if n.servers == nothing && servers != nothing && (e != dropped || servers != underway) {
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
	record  record
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
	add := func(e event, fn func(*truth)) {
		n := w
		fn(&n)
		n.record = n.record.on(e)
		out = append(out, n)
	}
	for _, c := range []content{quiet, busy} {
		add(changed, func(n *truth) { n.entry = c })
	}
	idle := w.write == none && !w.erase
	f := w.record.fate(w.entry == quiet)
	if idle && (f == save || w.entry == busy && w.record.disk != current) {
		add(writing, func(n *truth) { n.write = n.entry })
	}
	if w.write != none {
		add(written, func(n *truth) { n.disk, n.write = w.write, none })
		failed := unwritten
		if w.disk == none {
			failed = erased
		}
		add(failed, func(n *truth) { n.write = none })
	}
	if idle && f == erase {
		n := w
		n.erase = true
		out = append(out, n)
	}
	if w.erase {
		add(erased, func(n *truth) { n.disk, n.erase = none, false })
		n := w
		n.erase = false // it failed
		out = append(out, n)
	}
	if w.report == none && w.record.named(true, w.entry == quiet) {
		add(reporting, func(n *truth) { n.report = max(w.entry, w.disk) })
	}
	if w.report != none {
		e := answered
		if w.report == quiet {
			e = dropped
		}
		add(e, func(n *truth) { n.servers, n.report = w.report.keep(), none })
		lost, unanswered := w, w
		lost.report = none
		unanswered.servers, unanswered.report = w.report.keep(), none
		out = append(out, lost, unanswered)
	}
	if w.disk != none { // a crash; an entry that was not saved is dropped by the full report of the next run
		out = append(out, truth{record: loadedRecord, entry: w.disk, disk: w.disk, servers: w.servers})
	}
	return out
}

// TestNothingIsForgottenThatServersOrPluginMayStillHave walks through every world that can come about.
func TestNothingIsForgottenThatServersOrPluginMayStillHave(t *testing.T) {
	begin := truth{entry: busy}
	from := map[truth]truth{begin: {}}
	for queue := []truth{begin}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		f := w.record.fate(w.entry == quiet)
		if f == forget && (w.servers != none || w.report == busy || w.disk != none) ||
			f == erase && (w.servers != none || w.disk != quiet) {
			for at := w; at != (truth{}); at = from[at] {
				t.Logf("%+v", at)
			}
			t.Fatalf("%s, but somebody has it; the way there, backwards, is above", f)
		}
		if f == forget {
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
		w.entry, w.record = quiet, w.record.on(changed)
	}
	for range 20 {
		switch f := w.record.fate(true); {
		case w.write != none:
			w.disk = w.write
			w.write = none
			w.record = w.record.on(written)
		case w.erase:
			w.disk = none
			w.erase = false
			w.record = w.record.on(erased)
		case w.report != none:
			e := answered
			if w.report == quiet {
				e = dropped
			}
			w.servers = w.report.keep()
			w.report = none
			w.record = w.record.on(e)
		case f == forget:
			return
		case f == save:
			w.write, w.record = quiet, w.record.on(writing)
		case f == erase:
			w.erase = true
		case w.record.named(false, true):
			w.report, w.record = max(w.entry, w.disk), w.record.on(reporting)
		default:
			t.Fatalf("from %+v it stays for ever: %+v", begin, w)
		}
	}
	t.Fatalf("from %+v it does not end: %+v", begin, w)
}

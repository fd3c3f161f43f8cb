package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// bar is what a figure must keep. A zero limit is not judged by a number.
type bar struct {
	text         string
	median, high float64 // the high one is the 99th percentile
	least        float64 // of the median, where more is better
}

// figure is one thing that was measured.
type figure struct {
	name, unit string
	samples    []float64
	bar        bar
	n          int     // measurements, if the samples are only the least, the median and the most of them
	p99        float64 // the 99th percentile of those, where it is known
}

// report collects figures.
type report struct {
	begun   time.Time
	machine string
	runs    int
	figures []figure
	notes   []string
}

// note adds a line beneath the figures.
func (r *report) note(what, text string) {
	r.notes = append(r.notes, "- "+what+": "+text)
	fmt.Println(r.notes[len(r.notes)-1])
}

// add notes a figure and shows it at once: a bench takes minutes.
func (r *report) add(f figure) {
	slices.Sort(f.samples)
	r.figures = append(r.figures, f)
	fmt.Println(f.row())
}

// at is a quantile of the sorted samples: the value that q of them do not exceed.
func (f figure) at(q float64) float64 {
	if len(f.samples) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(q*float64(len(f.samples)))) - 1
	return f.samples[max(0, min(i, len(f.samples)-1))]
}

func (f figure) write(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == math.Trunc(v) || v >= 1000:
		return strings.TrimSpace(fmt.Sprintf("%.0f %s", v, f.unit))
	case v >= 10:
		return fmt.Sprintf("%.1f %s", v, f.unit)
	}
	return fmt.Sprintf("%.2f %s", v, f.unit)
}

// missed is how a row ends whose bar is not kept.
const missed = "**missed**"

// judgement says whether the bar is kept. What was not measured keeps none.
func (f figure) judgement() string {
	switch {
	case f.bar.text == "":
		return ""
	case len(f.samples) == 0, f.bar.median > 0 && f.at(0.5) > f.bar.median, f.bar.high > 0 && f.most() > f.bar.high,
		f.at(0.5) < f.bar.least:
		return missed
	}
	return "kept"
}

// most is what the high bar judges: the 99th percentile, or the most of a few samples.
func (f figure) most() float64 {
	if f.p99 > 0 {
		return f.p99
	}
	return f.at(0.99)
}

func (f figure) row() string {
	high := "–"
	if len(f.samples) >= 50 || f.p99 > 0 {
		high = f.write(f.most())
	}
	return fmt.Sprintf("| %s | %d | %s | %s – %s – %s | %s | %s | %s |", f.name, max(f.n, len(f.samples)),
		f.write(f.at(0.5)), f.write(f.at(0)), f.write(f.at(0.5)), f.write(f.at(1)), high, f.bar.text, f.judgement())
}

// judge is an error that lists the rows of a page whose bars are missed. A page without a bar is none that this program
// wrote.
func judge(page string) error {
	var out []string
	bars := 0
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, "| kept |"):
			bars++
		case strings.HasSuffix(line, "| "+missed+" |"):
			bars++
			out = append(out, line)
		}
	}
	switch {
	case bars == 0:
		return errors.New("nothing was held against a bar")
	case len(out) == 0:
		return nil
	}
	return fmt.Errorf("%d of %d bars are missed:\n%s", len(out), bars, strings.Join(out, "\n"))
}

// rows are the figures as the page shows them.
func (r *report) rows() string {
	var b strings.Builder
	for _, f := range r.figures {
		b.WriteString(f.row() + "\n")
	}
	return b.String()
}

// page is the whole text.
func (r *report) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Performance

Measured by `+"`make bench`"+` on %s.

Machine: %s.

| what | n | p50 | min – median – max | p99 | bar (p50 / p99) | |
|---|---|---|---|---|---|---|
`, r.begun.UTC().Format("2006-01-02 15:04 MST"), r.machine)
	b.WriteString(r.rows())
	if len(r.notes) > 0 {
		b.WriteString("\nCommands of the Raft log, as counted before and after:\n\n" +
			strings.Join(r.notes, "\n") + "\n")
	}
	fmt.Fprintf(&b, `
How to read it. `+"`make bench`"+` fails when a bar is missed, and lists the rows; `+
		"`go run ./tools/bench -judge`"+` says of this
page the same, and measures nothing. The real program runs as a development agent in a directory of its own; everything
is asked over HTTP.
"Registered" begins when the client sends the request; "started" is the moment that the task's state names; "running" is
the first answer that says so to a blocking query. Jobs run one after another, %d of each kind after three that warm the
caches. "Processes dead" is the end that the task's state names, "claim free" the first answer without a writer. With a
volume the time of the plugin is part of the figure (the bundled plugin makes a loop device, mounts and unmounts it),
but the bar is judged as if it took none. Tasks of other drivers and with other disks have an agent each, configured for
them; no bar was set for them. Raft entries and fsyncs are counted by the log itself; those of a start reach from the
registration to %s after "running", those of a release from the stop to %s after the end. Restarts, releases and lists
of many are measured within their packages, with the parts of the program around them that the client and the server
have: a plugin that answers at once or as slowly as its row says, an own directory, and HTTP for the lists. Three
servers are in one process, with a log each on the same disk and TLS between them. A restart
ends when each alloc that asked has its verified volume; a release begins with the stop of the job, and its ideal is
three calls for each volume, as many at once as the plugin makes. Memory is the proportional set size of
/proc/*/smaps_rollup, the resident one of /proc/*/status.
`, r.runs, settled, settled)
	return b.String()
}

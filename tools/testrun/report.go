package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	silence = 30 * time.Second // after which it says what still runs
	slowest = 10               // packages that are named at the end
	few     = 3                // packages, of whose tests each is shown
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Output      string
	FailedBuild string
	Elapsed     float64 // seconds
}

// report follows one run.
type report struct {
	out     io.Writer
	now     func() time.Time
	begun   time.Time
	spoke   time.Time
	total   int
	done    int
	running map[string]time.Time // packages under way, and since when
	tests   map[string][]string  // the output of tests that have not passed, by package and test
	order   map[string][]string  // the tests of a package in the order in which they spoke; "" is the package itself
	builds  map[string][]string  // what a compiler said
	failed  []event              // packages
	took    map[string]float64   // seconds, by package
	broken  map[string]bool      // tests that failed
	dying   map[string]bool      // packages whose program has said that it ends
	strayed []string             // lines that are no events
}

func newReport(out io.Writer, total int, now func() time.Time) *report {
	return &report{
		out:     out,
		now:     now,
		begun:   now(),
		spoke:   now(),
		total:   total,
		running: map[string]time.Time{},
		tests:   map[string][]string{},
		order:   map[string][]string{},
		builds:  map[string][]string{},
		took:    map[string]float64{},
		broken:  map[string]bool{},
		dying:   map[string]bool{},
	}
}

func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			r.take(e)
		} else if len(line) > 0 {
			r.strayed = append(r.strayed, string(line))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (r *report) take(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "start":
		r.running[e.Package] = r.now()
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "output":
		if strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") {
			r.dying[e.Package] = true
		}
		if r.dying[e.Package] { // go test has it be the last test that spoke, which may have passed
			e.Test = ""
			key = e.Package + "\x00"
		}
		if _, spoke := r.tests[key]; !spoke {
			r.order[e.Package] = append(r.order[e.Package], e.Test)
		}
		r.tests[key] = append(r.tests[key], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.ended(e)
			break
		}
		if r.broken[key] = e.Action == "fail"; !r.broken[key] {
			r.tests[key] = []string{}
		}
		if r.total <= few && !strings.Contains(e.Test, "/") {
			r.say("%s %s (%.1fs)", verdicts[e.Action], e.Test, e.Elapsed)
		}
	}
	if r.now().Sub(r.spoke) >= silence && len(r.running) > 0 {
		r.say("still running: %s", r.underWay())
	}
}

var verdicts = map[string]string{"pass": "ok  ", "skip": "skip", "fail": "FAIL"}

// ended counts a package; of those without tests nothing is said.
func (r *report) ended(e event) {
	r.done++
	delete(r.running, e.Package)
	switch e.Action {
	case "skip":
		return
	case "fail":
		r.failed = append(r.failed, e)
	}
	cached := ""
	if slices.ContainsFunc(r.tests[e.Package+"\x00"], func(s string) bool { return strings.Contains(s, "(cached)") }) {
		cached = " (cached)"
	} else {
		r.took[e.Package] = e.Elapsed
	}
	r.say("%s %s %.1fs%s", verdicts[e.Action], e.Package, e.Elapsed, cached)
	if e.Action == "pass" {
		r.forget(e.Package)
	}
}

func (r *report) forget(pkg string) {
	for _, test := range r.order[pkg] {
		delete(r.tests, pkg+"\x00"+test)
	}
	delete(r.order, pkg)
}

// say writes a line behind how far the run is.
func (r *report) say(format string, args ...any) {
	r.spoke = r.now()
	elapsed := r.spoke.Sub(r.begun).Round(time.Second)
	fmt.Fprintf(r.out, "[%3d/%d %6s] %s\n", r.done, r.total, elapsed, fmt.Sprintf(format, args...))
}

func (r *report) underWay() string {
	var out []string
	for _, pkg := range slices.SortedFunc(maps.Keys(r.running), func(a, b string) int {
		return r.running[a].Compare(r.running[b])
	}) {
		out = append(out, fmt.Sprintf("%s (%s)", pkg, r.now().Sub(r.running[pkg]).Round(time.Second)))
	}
	return strings.Join(out, ", ")
}

func (r *report) failures() int { return len(r.failed) }

// end tells what took longest, and what failed.
func (r *report) end() {
	names := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int { return cmp.Compare(r.took[b], r.took[a]) })
	if len(names) > 1 {
		fmt.Fprintf(r.out, "\nthe slowest of %d packages, %s in all:\n", len(names),
			r.now().Sub(r.begun).Round(time.Second))
		for _, pkg := range names[:min(slowest, len(names))] {
			fmt.Fprintf(r.out, "  %7.1fs  %s\n", r.took[pkg], pkg)
		}
	}
	for _, line := range r.strayed {
		fmt.Fprint(r.out, line)
	}
	// A package that was under way when the run broke off never ended.
	for _, pkg := range slices.Sorted(maps.Keys(r.running)) {
		r.failed = append(r.failed, event{Package: pkg})
	}
	for _, e := range r.failed {
		r.tell(e)
	}
	if len(r.failed) > 0 {
		fmt.Fprintf(r.out, "\n%d of %d packages failed:\n", len(r.failed), r.total)
		for _, e := range r.failed {
			fmt.Fprintf(r.out, "FAIL %s\n", e.Package)
		}
	}
}

// tell repeats what a failed package said: of its tests those that failed, or did not end.
func (r *report) tell(e event) {
	fmt.Fprintf(r.out, "\n=== %s\n", e.Package)
	for _, line := range r.builds[e.FailedBuild] {
		fmt.Fprint(r.out, line)
	}
	tests := slices.Clone(r.order[e.Package])
	slices.SortStableFunc(tests, func(a, b string) int { // the package's own words come last, as go test has it
		return cmp.Compare(btoi(a == ""), btoi(b == ""))
	})
	for _, test := range tests {
		for _, line := range r.tests[e.Package+"\x00"+test] {
			fmt.Fprint(r.out, line)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

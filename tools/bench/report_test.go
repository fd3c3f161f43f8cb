package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Given what go test prints, when it is parsed, then each benchmark has its values by their units, and a row of one
// that did not run is an error.
func TestBenchmarksAreReadByTheirUnits(t *testing.T) {
	measured := parse("goos: linux\nBenchmarkLists/volumes=500/page=0-2   \t 40\t 250172 ns/op\t 44.0 max-ms\t" +
		" 9.5 min-ms\t 12.25 p50-ms\nPASS\n")
	w := row{name: "x", benchmark: "Lists/volumes=500/page=0", unit: "ms", metrics: quantiles}
	f, err := w.figure(measured, 40)
	if err != nil || f.row() != "| x | 40 | 12.2 ms | 9.50 ms – 12.2 ms – 44 ms | – |  |  |" {
		t.Errorf("%s, %v", f.row(), err)
	}
	w.benchmark = "Lists/volumes=501/page=0"
	if _, err := w.figure(measured, 40); err == nil {
		t.Error("a benchmark that did not run has a figure")
	}
}

// Given a benchmark that says its 99th percentile, in another unit than its row, then the row shows it and the bar is
// judged by it; where more is better, the bar is the least that is kept.
func TestARowSaysWhatIsBetter(t *testing.T) {
	measured := parse("BenchmarkX-2 1 3000000 ns/op 1 min-ms 2 p50-ms 9 max-ms 4.5 p99-ms 800 a-second\nPASS\n")
	w := row{
		name:      "x",
		benchmark: "X",
		unit:      "ms",
		metrics:   quantiles,
		p99:       "p99-ms",
		n:         1000,
		bar:       bar{text: "2 / 5 ms", median: 2, high: 5},
	}
	f, err := w.figure(measured, 1)
	if err != nil || f.row() != "| x | 1000 | 2 ms | 1 ms – 2 ms – 9 ms | 4.50 ms | 2 / 5 ms | kept |" {
		t.Errorf("%s, %v", f.row(), err)
	}
	f.bar.high = 4
	if f.judgement() != "**missed**" {
		t.Errorf("a percentile of 4.5 ms is %s by a bar of 4 ms", f.judgement())
	}
	w = row{benchmark: "X", unit: "ms", metrics: []string{"ns/op"}, scale: 1e-6}
	if f, err := w.figure(measured, 1); err != nil || f.at(0.5) != 3 {
		t.Errorf("%s, %v", f.row(), err)
	}
	for least, want := range map[float64]string{800: "kept", 801: "**missed**"} {
		w = row{benchmark: "X", unit: "/s", metrics: []string{"a-second"}, bar: bar{text: "much", least: least}}
		if f, err := w.figure(measured, 1); err != nil || f.judgement() != want {
			t.Errorf("800 a second by a bar of %v is %s, %v", least, f.judgement(), err)
		}
	}
}

func series100() []float64 {
	var out []float64
	for i := range 100 {
		out = append(out, float64(100-i))
	}
	return out
}

// Given measurements in any order, when they are reported, then the quantiles are those of the sorted ones and the bar
// is judged by them.
func TestAFigureIsJudgedByItsQuantiles(t *testing.T) {
	r := &report{begun: time.Unix(0, 0)}
	r.add(figure{name: "x", unit: "ms", samples: series100(), bar: bar{text: "50 / 99", median: 50, high: 99}})
	f := r.figures[0]
	if f.at(0) != 1 || f.at(0.5) != 50 || f.at(0.99) != 99 || f.at(1) != 100 || f.judgement() != "kept" {
		t.Errorf("%v %v %v %v: %s", f.at(0), f.at(0.5), f.at(0.99), f.at(1), f.judgement())
	}
	for _, b := range []bar{{text: "t", median: 49}, {text: "t", median: 50, high: 98}} {
		f.bar = b
		if f.judgement() != "**missed**" {
			t.Errorf("%+v is %s", b, f.judgement())
		}
	}
	if row := (figure{name: "few", unit: "MiB", samples: []float64{1.234}}).row(); !strings.Contains(row, "1.23 MiB") ||
		!strings.Contains(row, "| – |") {
		t.Errorf("a figure of one measurement has a 99th percentile: %s", row)
	}
	if page := r.page(); !strings.Contains(page, "| x | 100 | 50 ms |") || !strings.Contains(page, "1970-01-01") {
		t.Errorf("the page is\n%s", page)
	}
}

// Given rows that keep their bars, one that misses its own, and one that was not measured, when the whole is judged,
// then each that is missed is listed as it stands on the page, and the page says the same later.
func TestWhatIsMissedIsListed(t *testing.T) {
	r := &report{}
	keeps := figure{name: "a start", unit: "ms", samples: []float64{1, 2}, bar: bar{text: "≤ 3 ms", median: 3}}
	r.add(keeps)
	r.add(figure{name: "no bar", unit: "ms", samples: []float64{9}})
	if err := judge(r.rows()); err != nil {
		t.Errorf("all is kept: %v", err)
	}
	r.add(figure{name: "a release", unit: "ms", samples: []float64{4, 5}, bar: bar{text: "≤ 3 ms", median: 3}})
	r.add(figure{name: "a restart", unit: "ms", bar: bar{text: "≤ 3 ms", median: 3}})
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(r.page()), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"the run": judge(r.rows()), "its page": judgePage(path)} {
		if err == nil || !strings.Contains(err.Error(), "2 of 3 bars are missed:\n| a release | 2 | 4 ms |") ||
			!strings.Contains(err.Error(), "\n| a restart | 0 |") || strings.Contains(err.Error(), "a start") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := judge("# Performance\n"); err == nil {
		t.Error("a page without figures keeps its bars")
	}
}

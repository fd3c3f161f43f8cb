package main

import (
	"strings"
	"testing"
	"time"
)

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

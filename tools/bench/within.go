package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// row is a figure that a benchmark of a package measures: what the program cannot be brought to from outside.
type row struct {
	name, benchmark string
	unit            string
	metrics         []string // least, median and most of the measurements; one: there is one measurement
	bar             bar
}

// suite is a package with benchmarks, each of which measures as often as times says.
type suite struct {
	pkg, run string
	times    int
	rows     []row
}

var quantiles = []string{"min-ms", "p50-ms", "max-ms"}

// suites are measured in this order. Their bars are those of docs/performance.md.
var suites = []suite{
	{pkg: "./internal/client/csimanager/node", run: "BenchmarkRestart", times: 10, rows: []row{
		{
			name:      "Restart under 250 published volumes: each alloc has its volume again",
			benchmark: "Restart/volumes=250",
			unit:      "ms",
			metrics:   quantiles,
		},
		{
			name:      "Restart under 1,000 published volumes",
			benchmark: "Restart/volumes=1000",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 1 s, no call that changes anything", median: 1000, high: 1000},
		},
	}},
	{pkg: "./internal/server", run: "BenchmarkRestart", times: 10, rows: []row{{
		name:      "Restart of a server over 8,192 entries that no snapshot holds: it leads",
		benchmark: "Restart",
		unit:      "ms",
		metrics:   quantiles,
		bar:       bar{text: "≤ 2 s", median: 2000, high: 2000},
	}}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkRelease", times: 1, rows: []row{{
		name:      "Release of 300 volumes, 200 ms a call, 10 at once: over the ideal of 18 s",
		benchmark: "Release",
		unit:      "times",
		metrics:   []string{"x-ideal"},
		bar:       bar{text: "≤ 1.5 times", median: 1.5},
	}}},
	{pkg: "./internal/testkit/verbs", run: "BenchmarkLists", times: 40, rows: []row{
		{
			name:      "List of 500 volumes",
			benchmark: "Lists/volumes=500/page=0",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 3 ms (4.6 and 18 elsewhere; 169 here once)", median: 3},
		},
		{
			name:      "List of 10,000 volumes, whole",
			benchmark: "Lists/volumes=10000/page=0",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 60 ms: linear", median: 60},
		},
		{
			name:      "List of 10,000 volumes, 500 at a time",
			benchmark: "Lists/volumes=10000/page=500",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 90 ms: by the page", median: 90},
		},
		{
			name:      "List of 500 allocations",
			benchmark: "Lists/allocs=500/page=0",
			unit:      "ms",
			metrics:   quantiles,
		},
	}},
}

// within runs the benchmarks of packages, each in a process of its own.
func within(ctx context.Context, r *report, _ string) error {
	for _, s := range suites {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+s.run+"$",
			"-benchtime", fmt.Sprintf("%dx", s.times), "-timeout", "20m", s.pkg)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s of %s: %w\n%s", s.run, s.pkg, err, out)
		}
		measured := parse(string(out))
		for _, w := range s.rows {
			f, err := w.figure(measured, s.times)
			if err != nil {
				return err
			}
			r.add(f)
		}
	}
	return nil
}

func (w row) figure(measured map[string]map[string]float64, times int) (figure, error) {
	f := figure{name: w.name, unit: w.unit, bar: w.bar, n: times}
	for _, m := range w.metrics {
		v, ok := measured[w.benchmark][m]
		if !ok || math.IsNaN(v) {
			return f, errors.New("the benchmark " + w.benchmark + " does not say " + m)
		}
		f.samples = append(f.samples, v)
	}
	return f, nil
}

// parse reads what go test prints of benchmarks: a name, how often, and values with their units.
func parse(out string) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // without the number of processors
		}
		all[name] = map[string]float64{}
		for i := 2; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseFloat(words[i], 64); err == nil {
				all[name][words[i+1]] = v
			}
		}
	}
	return all
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// row is a figure that a benchmark of a package measures: what the program cannot be brought to from outside.
type row struct {
	name, benchmark string
	unit            string
	metrics         []string // least, median and most of the measurements; one: there is one measurement, or their mean
	p99             string   // the metric that is the 99th percentile; empty: none
	scale           float64  // by which the metrics become the unit; 0: they have it
	n               int      // measurements, if each run of the benchmark has many
	bar             bar
}

// suite is a package with benchmarks, each of which measures as often as times says.
type suite struct {
	pkg, run string
	times    int
	rows     []row
}

var quantiles = []string{"min-ms", "p50-ms", "max-ms"}

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
	f := figure{name: w.name, unit: w.unit, bar: w.bar, n: cmp.Or(w.n, times)}
	metrics := w.metrics
	if w.p99 != "" {
		metrics = append(slices.Clone(metrics), w.p99)
	}
	for _, m := range metrics {
		v, ok := measured[w.benchmark][m]
		if !ok || math.IsNaN(v) {
			return f, errors.New("the benchmark " + w.benchmark + " does not say " + m)
		}
		f.samples = append(f.samples, v*cmp.Or(w.scale, 1))
	}
	if w.p99 != "" {
		f.p99 = f.samples[len(w.metrics)]
		f.samples = f.samples[:len(w.metrics)]
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

// Command mutants holds the tests to their word: it breaks the program on purpose, one edit of tools/mutants/list at a
// time, and fails unless a test fails by each. `make mutants` runs it on all; nothing imports it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"berth/internal/base/lifecycle"
)

// listDir is where the lists are, below the root of the repository.
const listDir = "tools/mutants/list"

// options say which mutants are made, and how.
type options struct {
	seed    uint64
	n       int
	run     string
	timeout time.Duration
	jobs    int
	verbose bool
	compile bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "with -n: which mutants are picked; 0: those of the day")
	flag.IntVar(&o.n, "n", 0, "make only so many, picked by the seed; 0: all")
	flag.StringVar(&o.run, "run", "", "make only mutants whose names match")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Minute, "of one mutant's tests in one package: some wait a minute")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0)+2, "how many are made at a time: many wait")
	flag.BoolVar(&o.verbose, "v", false, "show what the tests said that killed a mutant")
	flag.BoolVar(&o.compile, "compile", false, "run nothing: say only which do not compile")
	flag.Parse()
	if err := o.do(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func (o options) do(ctx context.Context, out io.Writer) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	list, err := readLists(listDir)
	if err != nil {
		return err
	}
	if list, err = o.choose(list, out); err != nil {
		return err
	}
	if o.compile {
		return compile(ctx, root, list)
	}
	dir, err := os.MkdirTemp("", "berth-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &runner{root: root, dir: dir, timeout: o.timeout, jobs: o.jobs}
	start := time.Now()
	if err := r.unmutated(ctx, list); err != nil {
		return err
	}
	fmt.Fprintf(out, "the tests pass unmutated (%s); %d mutants\n", time.Since(start).Round(time.Second), len(list))
	outcomes, err := o.judgeAll(ctx, r, list, out)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return summary(outcomes, time.Since(start), out)
}

// choose picks the mutants that the options name.
func (o options) choose(list []mutant, out io.Writer) ([]mutant, error) {
	pattern, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(m mutant) bool { return !pattern.MatchString(m.name) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no mutant's name matches %q", o.run)
	}
	if o.n > 0 && o.n < len(list) {
		seed := o.seed
		if seed == 0 {
			seed = uint64(time.Now().Unix() / (24 * 60 * 60))
		}
		fmt.Fprintf(out, "%d of %d mutants; the same again: go run ./tools/mutants -seed %d -n %d\n",
			o.n, len(list), seed, o.n)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:o.n]
	}
	// Neighbours share what is compiled.
	slices.SortStableFunc(list, func(a, b mutant) int {
		return cmp.Or(cmp.Compare(filepath.Dir(a.file), filepath.Dir(b.file)),
			cmp.Compare(a.tests[0].pkg, b.tests[0].pkg))
	})
	return list, nil
}

// judgeAll works through the list, several at a time.
func (o options) judgeAll(ctx context.Context, r *runner, list []mutant, out io.Writer) ([]outcome, error) {
	var mu sync.Mutex
	var outcomes []outcome
	tell := func(got outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes = append(outcomes, got)
		fmt.Fprintf(out, "[%3d/%d] %-8s %5.1fs  %s\n",
			len(outcomes), len(list), got.verdict, got.took.Seconds(), got.m.name)
		if o.verbose {
			fmt.Fprintln(out, tail(got.text))
		}
	}
	q := &queue{left: slices.Clone(list), busy: make([]string, max(1, o.jobs))}
	workers, gctx := lifecycle.NewGroup(ctx)
	for w := range q.busy {
		workers.Go("worker", func() error {
			for {
				m, ok := q.take(w)
				if !ok {
					return nil
				}
				got := r.judge(gctx, m)
				if gctx.Err() != nil {
					return nil // stopped by a person
				}
				tell(got)
			}
		})
	}
	err := workers.Wait()
	return outcomes, err
}

// queue gives mutants to workers so that each stays with the tests of a package for as long as it can: neighbours
// share what is compiled, and the tests of a package are run one at a time, so that two workers would wait for each
// other.
type queue struct {
	mu   sync.Mutex
	left []mutant
	busy []string // by worker: the package whose tests it ran last
}

// take gives a worker the next mutant: of its package, else of one that nobody is at, else any.
func (q *queue) take(worker int) (m mutant, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.left) == 0 {
		q.busy[worker] = ""
		return m, false
	}
	at := slices.IndexFunc(q.left, func(m mutant) bool { return m.tests[0].pkg == q.busy[worker] })
	if at < 0 {
		at = slices.IndexFunc(q.left, func(m mutant) bool { return !slices.Contains(q.busy, m.tests[0].pkg) })
	}
	at = max(at, 0)
	m = q.left[at]
	q.left = slices.Delete(q.left, at, at+1)
	q.busy[worker] = m.tests[0].pkg
	return m, true
}

// summary tells of everything that is not killed, and fails then.
func summary(outcomes []outcome, took time.Duration, out io.Writer) error {
	slices.SortFunc(outcomes, func(a, b outcome) int { return cmp.Compare(a.m.at, b.m.at) })
	bad := 0
	for _, o := range outcomes {
		if o.verdict == killed {
			continue
		}
		bad++
		fmt.Fprintf(out, "\n%s: %s: %s\n  promise: %s\n", o.m.at, o.m.name, o.verdict, o.m.promise)
		if o.verdict != survived {
			fmt.Fprintf(out, "  %s\n", o.text)
			continue
		}
		for _, t := range o.m.tests {
			fmt.Fprintf(out, "  passes all the same: go test %s -run '%s'\n", t.pkg, t.run)
		}
	}
	fmt.Fprintf(out, "\n%d mutants in %s: %d killed, %d not\n",
		len(outcomes), took.Round(time.Second), len(outcomes)-bad, bad)
	if bad > 0 {
		return errors.New("a promise is held by no test: write the test, or mend the entry")
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

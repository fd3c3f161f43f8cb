// Command bench measures the real program on this machine and writes docs/performance.md: every figure beside its bar.
// It needs root and bin/berth; `make bench` builds that first. Nothing imports it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	runs := flag.Int("runs", 60, "measurements of each start and release; at least 50 for figures that are kept")
	tasks := flag.Int("tasks", 200, "tasks that are started at once")
	binary := flag.String("binary", "bin/berth", "the program")
	out := flag.String("out", "docs/performance.md", "the page to write")
	only := flag.String("only", "", "measure these parts alone, and write no page: "+
		"floors, cold, starts, many, services, within; separated by commas")
	judged := flag.Bool("judge", false, "measure nothing: say which bars the page has missed, by the exit code, too")
	flag.Parse()
	if *judged {
		fail(judgePage(*out))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(run(ctx, *binary, *out, *only, *runs, *tasks))
}

// fail ends the program with an error, if there is one.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// judgePage judges a page that was written before.
func judgePage(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("there is no page to judge (make bench): %w", err)
	}
	if err := judge(string(page)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func run(ctx context.Context, binary, out, only string, runs, tasks int) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("tasks run in namespaces and cgroups: run it as root")
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return fmt.Errorf("there is no program to measure (make build): %w", err)
	}
	r := &report{begun: time.Now(), machine: describe(), runs: runs}
	r.add(figure{
		name:    "Size of the program, stripped",
		unit:    "MiB",
		samples: []float64{mebi(info.Size())},
		bar:     bar{text: "≤ 45 MB", median: 45e6 / (1 << 20)},
	})
	for _, part := range []struct {
		name    string
		measure func(context.Context, *report, string) error
	}{
		{"floors", floors},
		{"cold", coldStarts},
		{"starts", starts(runs)},
		{"many", atOnce(tasks)},
		{"services", services(runs)},
		{"lists", listed(500)},
		{"within", within},
	} {
		if only != "" && !slices.Contains(strings.Split(only, ","), part.name) {
			continue
		}
		if err := part.measure(ctx, r, binary); err != nil {
			return err
		}
	}
	if only == "" { // the page is written of a whole run alone
		if err := os.WriteFile(out, []byte(r.page()), 0o644); err != nil {
			return err
		}
	}
	return judge(r.rows())
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/internal/base/lifecycle"
)

// verdict is what came of a mutant.
type verdict string

// Verdicts. Only killed is well: a test that hangs names no failure, and what does not compile is no mutant.
const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	hung     verdict = "HANG"
	stale    verdict = "STALE"
	broken   verdict = "ERROR"
)

// outcome is a verdict with what shows it.
type outcome struct {
	m       mutant
	verdict verdict
	text    string
	took    time.Duration
}

// A test of a mutant waits only so long for what mostly never comes; without a mutant it comes within seconds. The
// variable is that of internal/testkit/await.
const (
	patience    = "BERTH_TEST_PATIENCE"
	withMutants = 20 * time.Second
)

// runner compiles and runs the tests of mutants. The tree is never touched: edits are overlays.
type runner struct {
	root    string
	dir     string // temporary: overlays and test programs
	timeout time.Duration
	jobs    int      // how many packages are tried unmutated at a time
	run     sync.Map // by package: the lock of its tests, which may not meet themselves
}

// judge makes one mutant and runs its tests until one fails.
func (r *runner) judge(ctx context.Context, m mutant) outcome {
	start := time.Now()
	o := outcome{m: m}
	o.verdict, o.text = r.verdict(ctx, m)
	o.took = time.Since(start)
	return o
}

func (r *runner) verdict(ctx context.Context, m mutant) (verdict, string) {
	text, err := m.apply(r.root)
	if err != nil {
		return stale, err.Error()
	}
	dir, err := os.MkdirTemp(r.dir, "mutant")
	if err != nil {
		return broken, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, filepath.Join(r.root, m.file), text)
	if err != nil {
		return broken, err.Error()
	}
	program := ""
	for i, t := range m.tests {
		if i == 0 || t.pkg != m.tests[i-1].pkg {
			program = filepath.Join(dir, fmt.Sprintf("%d.test", i))
			if out, err := r.compile(ctx, t.pkg, program, overlay); err != nil {
				return broken, "it does not compile: " + out
			}
		}
		if v, out := r.try(ctx, program, overlay, t); v != survived {
			return v, out
		}
	}
	return survived, ""
}

// writeOverlay tells the compiler to read a text in place of a file.
func writeOverlay(dir, file, text string) (string, error) {
	edited, overlay := filepath.Join(dir, "edited.go"), filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {file: edited}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(edited, []byte(text), 0o600), os.WriteFile(overlay, raw, 0o600))
}

// compile makes the test program of a package; overlay may be empty.
func (r *runner) compile(ctx context.Context, pkg, program, overlay string) (string, error) {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// try runs tests of a compiled package and says what that means for a mutant in it.
func (r *runner) try(ctx context.Context, program, overlay string, t test) (verdict, string) {
	lock, _ := r.run.LoadOrStore(t.pkg, &sync.Mutex{})
	mu := lock.(*sync.Mutex)
	mu.Lock()
	defer mu.Unlock()
	// The program ends by itself at its time-out, saying where it hangs.
	late, cancel := context.WithTimeout(ctx, r.timeout+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(late, program, "-test.run="+t.run, "-test.count=1", "-test.timeout="+r.timeout.String())
	cmd.Dir = filepath.Join(r.root, t.pkg)
	// Tests that build a program, as those of shims build the helper, build the mutant.
	cmd.Env = append(os.Environ(), patience+"="+withMutants.String(),
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// With all that it started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a test left; mostly nothing is there
	}
	return judgement(err, late.Err() != nil, out.String())
}

// judgement reads how a test program ended.
func judgement(err error, late bool, out string) (verdict, string) {
	failed := strings.Contains(out, "--- FAIL: ")
	switch {
	case err == nil && strings.Contains(out, "testing: warning: no tests to run"):
		return broken, "no test has the name"
	case err == nil:
		return survived, ""
	case failed:
		return killed, out
	case late || strings.Contains(out, "panic: test timed out after"):
		return hung, "no test failed before its time was over; a test that waits for what does not come must say so\n" +
			tail(out)
	case strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: "):
		return killed, out
	}
	return broken, fmt.Sprintf("the tests could not be run: %v\n%s", err, tail(out))
}

// tail is the end of a text, for people.
func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// unmutated runs every test of the list as it is: one that fails anyway kills nothing. A package is compiled once, by
// go test itself, which remembers what passed.
func (r *runner) unmutated(ctx context.Context, list []mutant) error {
	runs := map[string][]string{}
	for _, m := range list {
		for _, t := range m.tests {
			if !slices.Contains(runs[t.pkg], t.run) {
				runs[t.pkg] = append(runs[t.pkg], t.run)
			}
		}
	}
	var mu sync.Mutex
	var errs []error
	tries, gctx := lifecycle.NewGroup(ctx)
	free := make(chan struct{}, max(1, r.jobs))
	for _, pkg := range sortedKeys(runs) {
		slices.Sort(runs[pkg])
		tries.Go(pkg, func() error {
			free <- struct{}{}
			defer func() { <-free }()
			cmd := exec.CommandContext(gctx, "go", "test", "-vet=off", "-timeout=10m",
				"-run="+strings.Join(runs[pkg], "|"), pkg)
			cmd.Dir = r.root
			if out, err := cmd.CombinedOutput(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs,
					fmt.Errorf("tests of %s fail without any mutant: %w\n%s", pkg, err, tail(string(out))))
			}
			return nil
		})
	}
	err := tries.Wait()
	return errors.Join(append(errs, err)...)
}

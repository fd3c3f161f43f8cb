package shim_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/testkit/mountns"
)

// helper is the built helper program.
var helper string

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, probeArgument) {
		if err := probe(); err != nil {
			panic(err)
		}
		return
	}
	if os.Getenv("BERTH_TEST_AGENT") != "" {
		os.Exit(m.Run()) // it is going to be killed: what it made would stay
	}
	mountns.Main(func() int {
		if helper = os.Getenv("BERTH_TEST_HELPER"); helper != "" {
			return m.Run() // where no compiler is: scripts/vm.sh
		}
		dir, err := os.MkdirTemp("", "berth-helper")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		helper = filepath.Join(dir, "berth-helper")
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", helper, "berth/cmd/berth-helper")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the helper: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	})
}

func program() (*os.File, error) { return os.Open(helper) }

// slice is this test run's own cgroup, so that the test disturbs no agent of the machine.
var slice = fmt.Sprintf("berth-test-%d.slice", os.Getpid())

func newLauncher(t testing.TB) *shim.Launcher {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "shim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l := launcherAt(t, dir)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.EndAll(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

func launcherAt(t testing.TB, dir string) *shim.Launcher {
	t.Helper()
	return launcherIn(t, dir, slice)
}

func launcherIn(t testing.TB, dir, slice string) *shim.Launcher {
	t.Helper()
	l, err := shim.New(shim.Config{Dir: dir, Program: program, Slice: slice})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAProcessRunsAndItsExitIsKept(t *testing.T) {
	l := newLauncher(t)
	ctx := short(t)
	logs := t.TempDir()
	begin := time.Now()
	p, err := l.Launch(ctx, &driver.LaunchSpec{
		AllocID:   ids.New(),
		Task:      "web",
		Attempt:   1,
		Argv:      []string{"sh", "-c", "echo hello; exit 3"},
		Env:       []string{"PATH=/usr/bin:/bin"},
		Logs:      driver.LogConfig{Dir: logs},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 50},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("launched in", time.Since(begin))
	exit, err := p.Wait(ctx)
	if err != nil || exit.ExitCode != 3 {
		t.Fatalf("exit %+v, %v", exit, err)
	}
	out, err := os.ReadFile(filepath.Join(logs, "web.stdout.0"))
	if err != nil || string(out) != "hello\n" {
		t.Errorf("output %q, %v", out, err)
	}
	if err := p.Kill(ctx, "", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.Handle().Cgroup); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
	if _, err := os.Stat(p.Handle().Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if !strings.Contains(p.Handle().Cgroup, slice) {
		t.Errorf("cgroup %s", p.Handle().Cgroup)
	}
}

func withTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

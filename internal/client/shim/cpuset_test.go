package shim_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/client/cpuset"
	"berth/internal/port/driver"
)

// Given two cores, when a task has one of them for itself, then it runs there alone: the tasks that ran before and
// their children move to the other one, and so do those that start; when it has ended, all may run anywhere.
func TestATaskWithCoresOfItsOwnHasThemAlone(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one core cannot be shared out")
	}
	l := newLauncher(t)
	own, late := ids.New(), ids.New()
	script := "sleep 1000 & exec sleep 1000"
	before := start(t, l, ids.New(), script, nil)
	now := cpuset.Shared{Cores: "0", All: "0-1", Own: map[ids.Alloc][]string{ids.Alloc(own): {"1"}}}
	if err := l.Confine(now); err != nil {
		t.Fatal(err)
	}
	mine := start(t, l, own, script, func(s *driver.LaunchSpec) { s.Resources.CpusetCores = "1" })
	after := start(t, l, late, script, nil)
	// What is shared is said again, as at each change: who has cores of its own keeps them.
	if err := l.Confine(now); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		p    driver.Process
		want string
	}{"what ran before": {before, "0"}, "the task with a core": {mine, "1"}, "what starts later": {after, "0"}} {
		for _, pid := range processesOf(t, c.p.Handle().Cgroup) {
			if got := allowed(t, pid); got != c.want {
				t.Errorf("%s may run on %q, want %q", name, got, c.want)
			}
		}
	}
	if err := l.Confine(cpuset.Shared{All: "0-1"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []driver.Process{before, after} {
		for _, pid := range processesOf(t, p.Handle().Cgroup) {
			if got := allowed(t, pid); got != "0-1" {
				t.Errorf("when all cores are free it may run on %q", got)
			}
		}
	}
}

// processesOf are the processes of a task, which are more than one.
func processesOf(t *testing.T, cgroup string) []string {
	t.Helper()
	b, err := os.ReadFile(cgroup + "/task/cgroup.procs")
	pids := strings.Fields(string(b))
	if err != nil || len(pids) == 0 {
		t.Fatalf("%v of %s, %v", pids, cgroup, err)
	}
	return pids
}

func allowed(t *testing.T, pid string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

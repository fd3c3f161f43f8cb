package shim_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"berth/e2e/hostile"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// probeArgument makes this program ask the kernel, in a task, for what a task must not have.
const probeArgument = "probe-system-calls"

// probe is the program in the task: it prints what the kernel answers to each attempt.
func probe() error { return hostile.Report(append(hostile.Calls(), hostile.Kernel()...), os.Stdout) }

// probing starts an isolated task with capabilities beyond the default ones and lets the probe run in it.
func probing(t *testing.T, cfg exec.Config, user string, capabilities ...any) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, _, sh := isolated(t, cfg, func(tc *driver.TaskConfig) {
		tc.User = user
		tc.Config["cap_add"] = capabilities
		tc.Mounts = []driver.Mount{{Source: self, Target: "/probe", ReadOnly: true}}
	})
	report := sh("/probe " + probeArgument)
	got, ended := hostile.Answers(report + "\n")
	if !ended {
		t.Fatalf("the probe says %q", report)
	}
	return got
}

// Given tasks of root, of an ordinary user, and of root with every capability, to whom the kernel itself refuses
// nothing, when they ask for what no confined task may, then each is answered alike: by the filter; and what the kernel
// tells of the node, and takes for it, is covered.
func TestWhatATaskMayNotAskOfTheKernel(t *testing.T) {
	for who, got := range map[string]map[string]string{
		"root":                  probing(t, exec.Config{}, "root"),
		"nobody":                probing(t, exec.Config{}, "nobody"),
		"root that may do more": probing(t, exec.Config{AllowCaps: []string{"all"}}, "root", "all"),
	} {
		for _, a := range append(hostile.Calls(), hostile.Kernel()...) {
			if answer := got[a.Name]; !slices.Contains(a.Want, answer) {
				t.Errorf("as %s, %s: %q, want %s", who, a.Name, answer, strings.Join(a.Want, " or "))
			}
		}
	}
}

func TestAnAgentMayLetItsTasksAskForMore(t *testing.T) {
	// The kernel itself refuses a user namespace to a process with threads.
	got := probing(t, exec.Config{AllowSyscalls: []string{"unshare", "kcmp"}}, "root")
	for name, want := range map[string]string{"unshare user": "EINVAL", "kcmp": "allowed", "setns": "EPERM",
		"clone user": "EPERM"} {
		if answer := got["system call: "+name]; answer != want {
			t.Errorf("%s: %s, want %s", name, answer, want)
		}
	}
}

// Programs of the C library ask for clone3 first: threads come about all the same.
func TestProgramsWithThreadsRunInATask(t *testing.T) {
	_, _, sh := isolated(t, exec.Config{}, nil)
	if got := sh("seq 1 300000 | sort -n -r --parallel=4 | head -1"); got != "300000" {
		t.Errorf("sorted by several threads: %q", got)
	}
}

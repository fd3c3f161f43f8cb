package shim_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
)

// Given a shim that could not be forked, when its alloc is tried again, then it starts and can be ended, and nothing of
// the first try is in the way.
func TestAForkThatFailedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	failed := false
	l, err := shim.New(shim.Config{Dir: dir, Slice: slice, Program: func() (*os.File, error) {
		if failed {
			return program()
		}
		failed = true
		return os.Open("/etc/hostname") // no program
	}})
	if err != nil {
		t.Fatal(err)
	}
	spec := sleeping(t)
	if _, err := l.Launch(short(t), spec); err == nil {
		t.Fatal("a text was run as a program")
	}
	if _, err := l.Launch(short(t), spec); err != nil {
		t.Fatalf("the second try: %v", err)
	}
	if err := l.EndAll(short(t)); err != nil {
		t.Error(err)
	}
}

// sleeping is a task that does nothing, of an alloc of its own.
func sleeping(t *testing.T) *driver.LaunchSpec {
	return &driver.LaunchSpec{
		AllocID:   ids.New(),
		Task:      "web",
		Attempt:   1,
		Argv:      []string{"/bin/sleep", "1000"},
		Logs:      driver.LogConfig{Dir: tempDir(t)},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 50},
	}
}

// Given a shim that ends as soon as it is started, when a task is launched in it, then the launch does not wait for a
// greeting that nobody sends: it fails with what the shim complained of, and nothing is left.
func TestAShimThatEndsAtOnceIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	l, err := shim.New(shim.Config{Dir: dir, Slice: slice, Program: func() (*os.File, error) {
		return os.Open("/bin/ls") // it knows nothing by the names that it is started with
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Launch(short(t), sleeping(t))
	if err == nil || fault.Has(err, fault.Timeout) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the launch: %v", err)
	}
	for _, words := range []string{"ends again and again", "cannot access 'shim'"} {
		if err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("it does not say %q: %v", words, err)
		}
	}
	if left := sockets(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Given shims that an agent has started, one that it ends and one that is killed, when both are gone, then no dead
// process of them is left: the agent is their parent.
func TestShimsOfAnAgentAreNoZombies(t *testing.T) {
	l := newLauncher(t)
	for _, killed := range []bool{false, true} {
		spec := sleeping(t)
		p, err := l.Launch(short(t), spec)
		if err != nil {
			t.Fatal(err)
		}
		pid := p.Handle().ShimPID
		if killed {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.End(short(t), ids.Alloc(spec.AllocID)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("shim %d, killed: %t, is still there: %v", pid, killed, err)
		}
	}
}

// Given a task that runs, when its control groups are asked whose they are, then they are its alloc's; those of others,
// of another slice, and those above are nobody's.
func TestWhoseAControlGroupIs(t *testing.T) {
	l := newLauncher(t)
	id := ids.New()
	p := start(t, l, id, "exec sleep 1000", nil)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.Handle().PID))
	if err != nil {
		t.Fatal(err)
	}
	_, group, ok := strings.Cut(string(text), "0::")
	if group = strings.TrimSpace(group); !ok || group == "/" {
		t.Skip("the unified hierarchy has no group of the task here")
	}
	if got := l.AllocOf(group); string(got) != id {
		t.Errorf("%s is of %q, want %q", group, got, id)
	}
	for _, g := range []string{"/", "", "/" + slice, "/other" + group, strings.Replace(group, slice, slice+"x", 1),
		strings.TrimPrefix(group, "/"), "/user.slice/session-1.scope"} {
		if got := l.AllocOf(g); got != "" {
			t.Errorf("%q is of %q", g, got)
		}
	}
}

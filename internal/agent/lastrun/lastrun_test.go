package lastrun_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/agent/lastrun"
	"berth/internal/base/lifecycle"
)

// asRun is where a process of this test finds the directory in which it is a run of an agent, and what becomes of it.
const asRun, becomes = "LASTRUN_DIR", "LASTRUN_BECOMES"

const thisBoot = "boot 1"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asRun); dir != "" {
		live(dir, os.Getenv(becomes))
		return
	}
	os.Exit(m.Run())
}

// live is a run of an agent that comes to an end.
func live(dir, end string) {
	run, _ := lastrun.Begin(dir, thisBoot, lastrun.KernelLog, slog.Default())
	switch end {
	case "order":
		run.End(nil)
	case "error":
		run.End(errors.New("the port is taken"))
	case "caught panic":
		run.End(fmt.Errorf("node: %w", &lifecycle.PanicError{Value: "broken", Stack: debug.Stack()}))
	case "panic":
		panic("broken")
	case "stack":
		debug.SetMaxStack(1 << 20)
		fmt.Println(deeper(0))
	case "memory":
		for all := [][]byte{}; ; {
			all = append(all, make([]byte, 1<<20))
			for i := range all[len(all)-1] {
				all[len(all)-1][i] = 1
			}
		}
	default: // "signal N": somebody else's
		if _, err := fmt.Println("lives"); err != nil {
			panic(err)
		}
		time.Sleep(time.Hour) // a select that waits for nothing would be a fatal error
	}
}

func deeper(n int) int { return deeper(n+1) + n } //nolint:staticcheck // it is to have no end

// lives runs an agent until it ends; wrap may put it somewhere before it begins.
func lives(t *testing.T, dir, end string, wrap ...string) {
	t.Helper()
	args := append(wrap, os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), asRun+"="+dir, becomes+"="+end)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(end, "signal %d", &n); err == nil {
		if _, err := fmt.Fscanln(out, new(string)); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(syscall.Signal(n)); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("%s: %v", end, err)
	}
}

// before is what the next run hears of the last, in the boot that it says.
func before(dir, boot string, kernel lastrun.Kernel) lastrun.End {
	run, end := lastrun.Begin(dir, boot, kernel, slog.New(slog.DiscardHandler))
	run.End(nil)
	return end
}

// Given a run of an agent that ends in each way there is, when the next begins, then it knows of a crash exactly
// where the run died of what it did itself; who ends an agent from outside makes none.
func TestAKillIsNoCrash(t *testing.T) {
	for end, crash := range map[string]string{
		"order":        "",
		"error":        "",
		"caught panic": "panic: broken",
		"panic":        "panic: broken",
		"stack":        "a fatal error of the runtime",
		"signal 11":    "SIGSEGV: segmentation violation",
		"signal 9":     "",
		"signal 3":     "",
		"signal 6":     "",
		"signal 15":    "",
	} {
		dir := filepath.Join(t.TempDir(), "run")
		lives(t, dir, end)
		got := before(dir, thisBoot, lastrun.KernelLog)
		if crash == "" && got.Crash != "" || !strings.HasPrefix(got.Crash, crash) {
			t.Errorf("%s: the next run hears of %q, want %q", end, got.Crash, crash)
		}
		if inOrder := end == "order" || end == "error"; (got.Run == "") != inOrder {
			t.Errorf("%s: the last run is %q", end, got.Run)
		}
		if crash != "" {
			data, err := os.ReadFile(got.Report)
			if err != nil || !strings.Contains(string(data), "goroutine ") {
				t.Errorf("%s: the report is lost, or says nothing: %v\n%s", end, err, data)
			}
		}
		again := before(dir, thisBoot, lastrun.KernelLog)
		if again.Crash != "" || again.Run != "" {
			t.Errorf("%s: the run after the next hears of %+v", end, again)
		}
		for _, all := range [][]string{got.Crashes, again.Crashes} { // the next one may have ended before it could ask
			if crashed := slices.Equal(all, []string{got.Run}); crashed != (crash != "") || !crashed && len(all) > 0 {
				t.Errorf("%s of %s: those that crashed are %q", end, got.Run, all)
			}
		}
	}
}

// Given a run that the kernel ends because its cgroup has no more memory, when the next begins, then it knows that,
// from the log of the kernel; after another boot of the machine, or without that log, it knows of no crash.
func TestTheKernelsKillIsKnown(t *testing.T) {
	group := memoryCgroup(t, 96<<20)
	enter := []string{"/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group}
	if _, _, err := lastrun.KernelLog.Killed(); err != nil {
		t.Skipf("the log of the kernel cannot be read: %v", err)
	}
	for name, c := range map[string]struct {
		boot   string
		kernel lastrun.Kernel
		crash  bool
	}{
		"in the same boot": {thisBoot, lastrun.KernelLog, true},
		"in another boot":  {"boot 2", lastrun.KernelLog, false},
		"without a log":    {thisBoot, lastrun.Kernel(filepath.Join(t.TempDir(), "none")), false},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		lives(t, dir, "memory", enter...)
		got := before(dir, c.boot, c.kernel)
		if got.Run == "" || (got.Crash != "") != c.crash {
			t.Errorf("%s: the next run hears of %+v", name, got)
		}
	}
}

// Given a kernel's log that says of which process it has ended one, when that is not the run before, as another of its
// number before it began or of its number with another name, then that run is not said to have died.
func TestTheKernelsKillIsOfTheRunBefore(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.TrimSpace(string(comm))
	kernel := func(entry string) lastrun.Kernel {
		path := filepath.Join(t.TempDir(), "kmsg")
		if err := os.WriteFile(path, []byte(entry), 0o600); err != nil {
			t.Fatal(err)
		}
		return lastrun.Kernel(path)
	}
	for name, c := range map[string]struct {
		entry   uint64
		command string
		pid     int
		crash   bool
	}{
		"it":                           {43, own, os.Getpid(), true},
		"another before it, in time":   {41, own, os.Getpid(), false},
		"another just before it began": {42, own, os.Getpid(), false},
		"another command":              {43, own + "x", os.Getpid(), false},
		"another process":              {43, own, os.Getpid() + 1, false},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		last := kernel("6,42,1,-;last\n")
		if run, _ := lastrun.Begin(dir, thisBoot, last, slog.New(slog.DiscardHandler)); run.ID() == "" {
			t.Fatal("the run is not recorded")
		}
		got := before(dir, thisBoot, kernel(fmt.Sprintf("6,%d,1,-;oom-kill:mems_allowed=0,task=%s,pid=%d,uid=0\n",
			c.entry, c.command, c.pid)))
		if got.Run == "" || (got.Crash != "") != c.crash {
			t.Errorf("%s: the next run hears of %+v", name, got)
		}
	}
}

// memoryCgroup makes a cgroup with so much memory, in bytes.
func memoryCgroup(t *testing.T, limit int) string {
	t.Helper()
	root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil {
		root, file = "/sys/fs/cgroup", "memory.max"
	}
	dir := filepath.Join(root, fmt.Sprintf("lastrun-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Given entries of the kernel's log as kernels write them, then those that end a process for want of memory are known.
func TestEntriesOfTheKernelsLog(t *testing.T) {
	const one, other = "6,442,1755537212,-;oom-kill:", "6,443,1755537213,-,caller=T1;oom-kill:"
	const tail = "mems_allowed=0,oom_memcg=/berth,task_memcg=/berth,task="
	for entry, want := range map[string]*lastrun.Kill{
		one + "constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/," + tail + "berth,pid=12,uid=0\n": {
			PID: 12, Command: "berth", Entry: 442},
		other + "constraint=CONSTRAINT_NONE," + tail + "a,pid=1,pid=7,uid=1000\n SUBSYSTEM=x\n": {
			PID: 7, Command: "a,pid=1", Entry: 443},
		"3,444,1755537226,-;Memory cgroup out of memory: Killed process 12 (berth) total-vm:221368kB\n": nil,
		"12,445,1755537226,-;oom-kill: a program said this,task=berth,pid=x,uid=0\n":                    nil,
		"12,x,1755537226,-;oom-kill:" + tail + "berth,pid=12,uid=0\n":                                   nil,
		"": nil,
	} {
		_, got := lastrun.Parse(entry)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: %+v, want %+v", entry, got, want)
		}
	}
}

// Given records and reports that are damaged, or a directory that cannot be used, then a run begins all the same, and
// accuses nobody.
func TestWhatCannotBeReadAccusesNobody(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"no record":     func(dir string) error { return os.Remove(filepath.Join(dir, "run.json")) },
		"half a record": func(dir string) error { return os.Truncate(filepath.Join(dir, "run.json"), 10) },
		"an empty one":  func(dir string) error { return os.Truncate(filepath.Join(dir, "run.json"), 0) },
		"a file instead": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		lives(t, dir, "panic")
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		run, got := lastrun.Begin(dir, thisBoot, lastrun.KernelLog, slog.New(slog.DiscardHandler))
		if got.Crash != "" || (run.ID() == "") != (name == "a file instead") {
			t.Errorf("%s: this run is %q and hears of %+v", name, run.ID(), got)
		}
		run.End(nil)
	}
}

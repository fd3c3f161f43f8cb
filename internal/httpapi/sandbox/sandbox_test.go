package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
)

// The test's own program is the child too.
func TestMain(m *testing.M) {
	if os.Args[0] == Work.Role {
		os.Exit(Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

const (
	plain = "job \"a\" {\n group \"g\" {\n task \"t\" {\n driver = \"exec\"\n config { args = [\"<&>\", " +
		"12345678901234567] }\n }\n }\n}\n"
	// slow takes minutes, and little memory at a time.
	slow = "job \"a\" {\n meta {\n a = length([for a in range(1024): [for b in range(1024): [for c in range(4): " +
		"b]]])\n}\n}"
	// large takes gigabytes, at once.
	large = "locals {\n a = format(\"%9999d\", 1)\n b = join(\"\", [for i in range(100): local.a])\n}\n" +
		"job \"a\" { \n meta { \n a = length([for j in range(8): [for i in range(1024): \"${local.b}${i}${j}\"]])\n}\n}"
)

// children lists the processes in the child's role that this process has started and that live.
func children(t *testing.T) (out []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended
		}
		for _, word := range strings.Fields(string(list)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
				strings.Trim(string(line), "\x00") == Work.Role {
				out = append(out, pid)
			}
		}
	}
	return out
}

// Given a file that asks for what is not built, when it is translated, then it is: it is refused where a job is run.
func TestWhatIsNotBuiltIsTranslated(t *testing.T) {
	src := "job \"a\" {\n periodic {\n cron = \"* * * * *\"\n }\n group \"g\" {\n service {\n name = \"s\"\n }\n }\n}"
	out, err := Evaluate(&Request{Source: src})
	if err != nil || !bytes.Contains(out, []byte(`"SpecType":"cron"`)) || !bytes.Contains(out, []byte(`"Name":"s"`)) {
		t.Errorf("it became %s, %v", out, err)
	}
}

func TestTheChildAnswersAsThisProcessWould(t *testing.T) {
	p := New()
	for name, req := range map[string]Request{
		"plain":     {Source: plain},
		"canonical": {Source: plain, Canonicalize: true, Region: "r", Namespace: "n"},
		"variables": {Source: "variable \"v\" {}\njob \"a\" { name = var.v }", Variables: "v = \"x\"\n"},
		"a typo":    {Source: "job \"a\" {\n grup \"g\" {}\n}"},
		"a file":    {Source: `job "a" { name = file("/etc/hostname") }`},
		"nothing":   {},
	} {
		t.Run(name, func(t *testing.T) {
			here, hereErr := Evaluate(&req)
			there, thereErr := p.Parse(t.Context(), &req)
			if !bytes.Equal(here, there) {
				t.Errorf("it answers %s, want %s", there, here)
			}
			if (hereErr == nil) != (thereErr == nil) ||
				hereErr != nil &&
					(hereErr.Error() != thereErr.Error() || fault.KindOf(hereErr) != fault.KindOf(thereErr)) {
				t.Errorf("it says %q, want %q", thereErr, hereErr)
			}
		})
	}
}

func TestEveryBoundIsNamed(t *testing.T) {
	short := New()
	short.work.Wall = 100 * time.Millisecond
	starved := New() // on a machine that is busy its processor time takes a while
	starved.work.Wall = 2 * time.Minute
	patient := New() // a program with the race detector fills its memory slowly
	patient.work.CPU, patient.work.Wall = time.Minute, 2*time.Minute
	for name, c := range map[string]struct {
		p      *Parser
		source string
		says   string
	}{
		"processor": {starved, slow, "more than 2s of processor time"},
		"memory":    {patient, large, "more than 256 MiB of memory"},
		"time":      {short, slow, "longer than 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.p.Parse(t.Context(), &Request{Source: c.source})
			if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "berth job run") {
				t.Errorf("it says: %v", err)
			}
			if left := children(t); len(left) > 0 {
				t.Errorf("children %v are left", left)
			}
		})
	}
}

func TestTheChildHasNothingAndEndsWithItsRequest(t *testing.T) {
	t.Setenv("BERTH_TEST_CANARY", "canary")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := New().Parse(ctx, &Request{Source: slow})
		ended <- err
	}()
	var pid int
	for end := time.Now().Add(time.Minute); !bounded(pid); time.Sleep(time.Millisecond) {
		if all := children(t); len(all) == 1 {
			pid = all[0]
		}
		if time.Now().After(end) {
			t.Fatalf("no child is bounded: %v", statusOf(pid))
		}
	}
	status := statusOf(pid)
	if status["Name"] != Work.Role || status["NoNewPrivs"] != "1" {
		t.Errorf("it is called %q, no new privileges: %q", status["Name"], status["NoNewPrivs"])
	}
	for set, want := range map[string]string{"CapInh": "0", "CapAmb": "0", "CapEff": "0", "CapPrm": "0"} {
		if os.Geteuid() == 0 && strings.Trim(status[set], "0") != "" {
			t.Errorf("%s is %s, want %s", set, status[set], want)
		}
	}
	if os.Geteuid() == 0 &&
		(status["Uid"] != "65534\t65534\t65534\t65534" || status["Gid"] != "65534\t65534\t65534\t65534" ||
			strings.TrimSpace(status["Groups"]) != "") {
		t.Errorf("it is user %q, group %q, groups %q", status["Uid"], status["Gid"], status["Groups"])
	}
	if score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err != nil || string(score) != "1000\n" {
		t.Errorf("its score for want of memory is %q, %v", score, err)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(environ) > 0 {
		t.Errorf("its environment is %q, %v", environ, err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != "/" {
		t.Errorf("it is in %q, %v", cwd, err)
	}
	for fd, to := range open(t, pid) {
		if !strings.HasPrefix(to, "anon_inode:[event") && !slices.Contains([]string{"0", "1", "2"}, fd) {
			t.Errorf("it has %s open as %s", to, fd)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("children %v outlive their request", left)
	}
}

// bounded reports whether a child has got as far as to its limits, and to be nobody.
func bounded(pid int) bool {
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(limits)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max cpu time") && f[3] == "2" && f[4] == "2" {
			return os.Geteuid() != 0 || strings.HasPrefix(statusOf(pid)["Uid"], "65534")
		}
	}
	return false
}

func statusOf(pid int) map[string]string {
	out := map[string]string{}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		out[name] = value
	}
	return out
}

func open(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			out[e.Name()] = to
		}
	}
	return out
}

func TestSoManyAreEvaluatedAndTheOthersWait(t *testing.T) {
	p := New()
	for range cap(p.turns) {
		leave, err := p.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := p.Parse(ctx, &Request{Source: plain})
			answers <- err
		}()
	}
	for end := time.Now().Add(time.Minute); len(p.queue) < cap(p.queue); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they don't wait")
		}
	}
	if _, err := p.Parse(ctx, &Request{Source: plain}); !fault.Has(err, fault.Busy) ||
		!strings.Contains(err.Error(), "try again later") {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range waiting {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("one that waits and goes: %v", err)
		}
	}
	if len(p.queue) != atOnce || len(p.turns) != atOnce {
		t.Errorf("%d wait or run, %d run", len(p.queue), len(p.turns))
	}
}

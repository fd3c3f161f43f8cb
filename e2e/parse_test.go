package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Job files that are small and ask for much.
const (
	hourlong = "job \"a\" {\n meta {\n a = length([for a in range(1024): [for b in range(1024): [for c in " +
		"range(1024): b]]])\n }\n}"
	gigabyte = "locals {\n a = format(\"%9999d\", 1)\n b = join(\"\", [for i in range(100): local.a])\n}\n" +
		"job \"a\" {\n meta {\n a = length([for j in range(8): [for i in range(1024): \"${local.b}${i}${j}\"]])\n }\n}"
	modest = "job \"a\" {\n group \"g\" {\n task \"t\" {\n driver = \"exec\"\n }\n }\n}"
)

// parse has the servers evaluate a job file.
func (m *machine) parse(ctx context.Context, hcl string) (status int, body string, err error) {
	m.t.Helper()
	data, err := json.Marshal(map[string]any{"JobHCL": hcl})
	must(m.t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%d/v1/jobs/parse", m.port), bytes.NewReader(data))
	must(m.t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// evaluators are the processes in which the agent evaluates job files.
func evaluators(m *machine) []process {
	return processes(func(p process) bool { return slices.Equal(p.args, []string{"berth-hcl"}) && sameProgram(p.pid) })
}

func sameProgram(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == binary
}

// TestAJobFileThatAsksForMuchHurtsNobody: a task that reaches the API must not end the agent with a hundred bytes.
func TestAJobFileThatAsksForMuchHurtsNobody(t *testing.T) {
	m := newMachine(t, false)
	if status, body, err := m.parse(t.Context(), modest); err != nil || status != http.StatusOK ||
		!strings.Contains(body, `"ID":"a"`) {
		t.Fatalf("a modest file: %d %s, %v", status, body, err)
	}
	for says, hcl := range map[string]string{"more than 2s of processor time": hourlong,
		"more than 256 MiB of memory": gigabyte} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		status, body, err := m.parse(ctx, hcl)
		cancel()
		if err != nil || status != http.StatusBadRequest || !strings.Contains(body, says) ||
			!strings.Contains(body, "berth job run") {
			t.Errorf("a file of %d bytes: %d %s, %v", len(hcl), status, body, err)
		}
	}
	if status, body, err := m.parse(t.Context(), "job \"a\" {\n  grup \"g\" {}\n}\n"); err != nil ||
		status != http.StatusBadRequest || !strings.HasPrefix(body, "job.nomad.hcl:2:3:") ||
		!strings.Contains(body, `did you mean "group"`) {
		t.Errorf("a typo has lost its place: %d %s, %v", status, body, err)
	}
	m.abandon(t, hourlong)
	if mb := m.peak(); mb > 200 {
		t.Errorf("the agent's memory peaked at %d MB", mb)
	}
	if status, body, err := m.parse(t.Context(), modest); err != nil || status != http.StatusOK {
		t.Errorf("a modest file afterwards: %d %s, %v", status, body, err)
	}
	// A child must not outlive an agent that is killed. A stopped one uses no processor time, so that no bound ends it.
	_, _, ended := m.underWay(hourlong)
	m.kill()
	<-ended
	m.eventually("the child to end with its agent", func() bool { return len(evaluators(m)) == 0 })
	m.start()
}

// underWay has a job file evaluated, and stops the child once it is bounded. The request ends with cancel.
func (m *machine) underWay(hcl string) (child int, cancel func(), ended chan error) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	m.t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() {
		_, _, err := m.parse(ctx, hcl)
		ended <- err
	}()
	m.eventually("a file to be evaluated by nobody", func() bool {
		if all := evaluators(m); len(all) == 1 {
			child = all[0].pid
		}
		return child != 0 && strings.Contains(statusOf(child), "Uid:\t65534\t65534\t65534\t65534")
	})
	// The last that it does before it reads its input follows within the same moment.
	m.eventually("it to evaluate", func() bool { return ticks(child) >= 10 })
	must(m.t, syscall.Kill(child, syscall.SIGSTOP))
	return child, cancel, ended
}

// ticks is the processor time that a process has used, in hundredths of a second.
func ticks(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11]) // the kernel writes numbers
	system, _ := strconv.Atoi(f[12])
	return user + system
}

// abandon lets a client go while its file is evaluated: the child goes too. What it may do is looked at before.
func (m *machine) abandon(t *testing.T, hcl string) {
	t.Helper()
	child, cancel, ended := m.underWay(hcl)
	m.answers()
	for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"} {
		if text := statusOf(child); !strings.Contains(text, line) {
			t.Errorf("the child has not %q:\n%s", line, text)
		}
	}
	cancel()
	<-ended
	m.eventually("the child to end with its request", func() bool { return len(evaluators(m)) == 0 })
}

func statusOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// peak is the most memory that the agent has had, in MB.
func (m *machine) peak() int {
	m.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	must(m.t, err)
	for line := range strings.Lines(string(status)) {
		var kB int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kB); n == 1 {
			return kB >> 10
		}
	}
	m.t.Fatalf("no peak of memory in %q", status)
	return 0
}

// TestAJobBeyondABoundIsRefused: one that were stored would end the agent, again at each start.
func TestAJobBeyondABoundIsRefused(t *testing.T) {
	m := newMachine(t, false)
	sized := func(count int, more string) string {
		return strings.Replace(shellJob("big", "exec", "exec sleep 1000", ""), "group \"g\" {",
			fmt.Sprintf("%s\ngroup \"g\" {\ncount = %d", more, count), 1)
	}
	constraints := strings.Repeat("constraint {\n attribute = \"${attr.kernel.name}\"\n value = \"linux\"\n}\n", 1001)
	for says, hcl := range map[string]string{
		`group "g": count 2000000000 exceeds the bound of 100000 allocs of one job`:   sized(2_000_000_000, ""),
		"number of constraints 1001 exceeds the bound of 1000 constraints of one job": sized(1, constraints),
	} {
		_, err := m.register(hcl)
		if status := (*api.StatusError)(nil); !errors.As(err, &status) || status.Code != http.StatusBadRequest ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		path := filepath.Join(t.TempDir(), "big.nomad.hcl")
		must(t, os.WriteFile(path, []byte(hcl), 0o600))
		for _, command := range []string{"run", "plan", "validate"} {
			if out, code := m.cli("job", command, path); code == 0 || !strings.Contains(out, says) {
				t.Errorf("job %s: exit code %d:\n%s", command, code, out)
			}
		}
	}
	if _, _, err := m.api.Jobs().Get(t.Context(), "big", nil); !api.IsNotFound(err) {
		t.Errorf("it was stored: %v", err)
	}
	if mb := m.peak(); mb > 300 {
		t.Errorf("the agent's memory peaked at %d MB", mb)
	}
	m.run(sized(1, ""))
	m.running("big", 1)
	m.stopJob("big")
}

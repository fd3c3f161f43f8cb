package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// cli runs a command against the machine's agent.
func (m *machine) cli(args ...string) (out string, code int) {
	m.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=unix://"+m.socket())
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// TestBadInput: whatever is wrong is refused with the object, the reason and the way out, and disturbs nothing.
func TestBadInput(t *testing.T) {
	m := newMachine(t, true)
	m.create("a", "local-csi")
	good := writer{id: "job", volume: "a"}
	t.Run("files", func(t *testing.T) { badFiles(t, m, good) })
	t.Run("jobs", func(t *testing.T) { badJobs(t, m, good) })
	t.Run("volumes", func(t *testing.T) { badVolumes(t, m) })
	t.Run("ids", func(t *testing.T) { badIDs(t, m) })
	t.Run("a body of 100 MB", func(t *testing.T) { bigBody(t, m) })
	// After all that, what is right still works.
	m.run(good.hcl())
	a := m.running("job", 1)[0]
	m.lives(m.pid(a.ID, "write", "/bin/sh"), 0)
	m.stopJob("job")
	m.remove("a")
}

func badFiles(t *testing.T, m *machine, good writer) {
	for name, c := range map[string]struct {
		text  string
		at    string // the place in the file; empty: it takes the servers to know
		words []string
	}{
		"syntax":        {"job \"x\" {\n  group \"g\" {\n", ":2:13", []string{"not closed"}},
		"unknown block": {"job \"x\" {\n  grup \"g\" {}\n}\n", ":2:3", []string{"grup", "group"}},
		"wrong type":    {strings.Replace(good.hcl(), "cpu    = 20", "cpu    = \"many\"", 1), ":", []string{"cpu"}},
		"unknown mode": {strings.Replace(good.hcl(), "single-node-writer", "single-writer", 1), "",
			[]string{"single-writer", "single-node-writer"}},
		"old nested config": {strings.Replace(good.hcl(), "source          = \"a\"", "config {\n source = \"a\"\n}", 1),
			":", []string{"source"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.nomad.hcl")
			must(t, os.WriteFile(path, []byte(c.text), 0o600))
			out, code := m.cli("job", "run", path)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			if c.at != "" {
				c.words = append(c.words, "bad.nomad.hcl"+c.at)
			}
			for _, w := range c.words {
				if !strings.Contains(out, w) {
					t.Errorf("it does not say %q:\n%s", w, out)
				}
			}
		})
	}
}

func badJobs(t *testing.T, m *machine, good writer) {
	refused := func(name, hcl string, words ...string) {
		t.Run(name, func(t *testing.T) {
			_, err := m.register(hcl)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the refusal does not say %q: %v", w, err)
				}
			}
		})
	}
	raw := good
	raw.driver = "raw_exec"
	refused("a driver that can't mount", raw.hcl(), "job", "write", "raw_exec", "data", "exec")
	refused("unknown namespace",
		strings.Replace(good.hcl(), "type = \"service\"", "type = \"service\"\n  namespace = \"nowhere\"", 1),
		"nowhere")
	shared := good
	shared.access = "multi-node-multi-writer"
	t.Run("a capability that the volume lacks", func(t *testing.T) { waits(t, m, shared, "multi-node-multi-writer") })
	unknown := good
	unknown.volume = "nothing"
	t.Run("unknown volume", func(t *testing.T) { waits(t, m, unknown, "nothing") })
	alien := good
	alien.driver = "docker-like"
	t.Run("unknown driver", func(t *testing.T) { waits(t, m, alien, "docker-like") })
}

// waits runs a job that cannot be placed: the command says why, at once, and ends with 2.
func waits(t *testing.T, m *machine, w writer, words ...string) {
	path := filepath.Join(t.TempDir(), "waits.nomad.hcl")
	w.id = "waits"
	must(t, os.WriteFile(path, []byte(w.hcl()), 0o600))
	out, code := m.cli("job", "run", path)
	if code == 1 { // refused at once: as good
		code = 2
	}
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("it does not say %q:\n%s", w, out)
		}
	}
	if _, code := m.cli("job", "stop", "-purge", "-yes", "waits"); code != 0 && code != 3 {
		t.Errorf("stop: exit code %d", code)
	}
}

func badVolumes(t *testing.T, m *machine) {
	ok := api.CSIVolume{
		ID:                    "v",
		Name:                  "v",
		PluginID:              "local-csi",
		RequestedCapacityMin:  32 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{capability("single-node-writer", "file-system")},
	}
	for name, c := range map[string]struct {
		change func(*api.CSIVolume)
		words  []string
	}{
		"unknown plugin": {func(v *api.CSIVolume) {
			v.PluginID = "nowhere"
		}, []string{"nowhere", "plugin status"}},
		"unknown access mode": {func(v *api.CSIVolume) {
			v.RequestedCapabilities[0].AccessMode = "any"
		}, []string{"any", "single-node-writer"}},
		"no capability":        {func(v *api.CSIVolume) { v.RequestedCapabilities = nil }, []string{"capability"}},
		"capacity beyond disk": {func(v *api.CSIVolume) { v.RequestedCapacityMin = 1 << 55 }, []string{"v"}},
		"minimum over maximum": {func(v *api.CSIVolume) { v.RequestedCapacityMax = 1 << 20 }, []string{"capacity"}},
		"unknown namespace":    {func(v *api.CSIVolume) { v.Namespace = "nowhere" }, []string{"nowhere"}},
		"unknown snapshot":     {func(v *api.CSIVolume) { v.SnapshotID = "nothing" }, []string{"nothing"}},
		"unknown clone":        {func(v *api.CSIVolume) { v.CloneID = "nothing" }, []string{"nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := ok
			v.RequestedCapabilities = []*api.CSIVolumeCapability{capability("single-node-writer", "file-system")}
			c.change(&v)
			_, _, err := m.api.Volumes().Create(t.Context(), &v, nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if status := (*api.StatusError)(nil); !errors.As(err, &status) {
				t.Errorf("no answer: %v", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the refusal does not say %q: %v", w, err)
				}
			}
			if _, _, err := m.api.Volumes().Get(t.Context(), "v", nil); !api.IsNotFound(err) {
				t.Errorf("a record of it was kept: %v", err)
			}
		})
	}
}

func badIDs(t *testing.T, m *machine) {
	before := find(t, m.root, "x")
	for name, id := range map[string]string{"parent": "../x", "slash": "a/b", "NUL": "a\x00b",
		"300 bytes": strings.Repeat("x", 300), "newline": "a\nb", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			v := &api.CSIVolume{
				ID:                    id,
				Name:                  "x",
				PluginID:              "local-csi",
				RequestedCapacityMin:  32 << 20,
				RequestedCapabilities: []*api.CSIVolumeCapability{capability("single-node-writer", "file-system")},
			}
			if _, _, err := m.api.Volumes().Create(t.Context(), v, nil); err == nil {
				t.Errorf("a volume %q was created", id)
			}
			job := strings.Replace(writer{id: "x", volume: "a"}.hcl(), "type = \"service\"",
				fmt.Sprintf("type = \"service\"\n  id = %q", strings.ReplaceAll(id, "\x00", "")), 1)
			if id != "" && !strings.Contains(id, "/") && id != "a\x00b" { // jobs may have slashes in their names
				if _, err := m.register(job); err == nil {
					t.Errorf("a job %q was registered", id)
				}
			}
			for _, read := range []func() error{
				func() error { _, _, err := m.api.Volumes().Get(t.Context(), id, nil); return err },
				func() error { _, _, err := m.api.Allocations().Get(t.Context(), id, nil); return err },
				func() error { _, _, err := m.api.Nodes().Get(t.Context(), id, nil); return err },
				func() error { _, _, err := m.api.Plugins().Get(t.Context(), id, nil); return err },
				func() error { _, err := m.api.Allocations().ListFiles(t.Context(), id, "/", nil); return err },
			} {
				if err := read(); err == nil && id != "" {
					t.Errorf("something is called %q", id)
				} else if status := (*api.StatusError)(nil); errors.As(err, &status) &&
					status.Code == http.StatusInternalServerError && strings.Contains(status.Body, "panic") {
					t.Errorf("the agent stumbled over %q: %v", id, err)
				}
			}
		})
	}
	if after := find(t, m.root, "x"); len(after) != len(before) {
		t.Errorf("files were made: %v", after)
	}
}

// bigBody sends 100 MB: the answer comes, and the agent lives and stays small.
func bigBody(t *testing.T, m *machine) {
	body := io.MultiReader(strings.NewReader(`{"Job":{"ID":"big","Meta":{"x":"`),
		bytes.NewReader(bytes.Repeat([]byte("a"), 100<<20)), strings.NewReader(`"}}}`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		fmt.Sprintf("http://127.0.0.1:%d/v1/jobs", m.port), body)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what it says is for the message alone
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("answer %s: %s", resp.Status, text)
		}
	} // an agent may also close the connection while we still send
	if _, _, err := m.api.Jobs().Get(t.Context(), "big", nil); !api.IsNotFound(err) {
		t.Errorf("the job of 100 MB: %v", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		var kB int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kB); n == 1 && kB > 300<<10 {
			t.Errorf("the agent's memory peaked at %d kB", kB)
		}
	}
}

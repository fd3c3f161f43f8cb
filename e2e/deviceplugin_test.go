package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/api"
)

// TestDevicesOfANode: given the guide of devices and its example, which is built as its author would build it, when it
// is named in the agent's configuration, then the guide's job gets a device and what it needs to use it, what is given
// is nobody else's, tasks keep their devices over kills of the agent and of the plugin, which are found or started
// again, a broken one is said to be and given to nobody, and what waits is placed when it is mended.
func TestDevicesOfANode(t *testing.T) {
	m := prepare(t, false)
	m.service = true
	dir, devs := filepath.Join(m.root, "plugins"), filepath.Join(m.root, "devices")
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "example-device"), ".")
	build.Dir, build.Env = "../examples/device", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.MkdirAll(devs, 0o755))
	write := func(id, text string) { must(t, os.WriteFile(filepath.Join(devs, id), []byte(text), 0o644)) }
	write("unit0", "")
	write("unit1", "")
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()),
		fmt.Sprintf("plugin_dir = %q\nplugin \"example-device\" {\n config { dir = %q }\n}", dir, devs))
	m.start()
	m.eventually("the devices to be there", func() bool {
		out, _ := m.cli("node", "status", "-self", "-verbose", "-stats")
		return strings.Contains(out, "example/file/plain[unit1]") && strings.Contains(out, "1.5 GHz") &&
			strings.Contains(out, "Device Stats")
	})
	page, err := os.ReadFile("../docs/guides/devices.md")
	must(t, err)
	file := pageFile.FindStringSubmatch(string(page))
	if len(file) != 3 || file[1] != "uses.nomad.hcl" {
		t.Fatalf("the guide has no uses.nomad.hcl: %v", file)
	}
	m.runsTo(strings.Replace(file[2], "${device.attr.memory}", "${attr.memory}", 1), 1, "says nothing of a device")
	m.runsTo(file[2], 0)
	m.eventually("the device to be used", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "uses")
		return out == "unit0\nunit0\n"
	})
	uses := func() *api.Allocation {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "uses", true, nil)
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("%d allocations", len(all))
		}
		a, _, err := m.api.Allocations().Get(t.Context(), all[0].ID, nil)
		must(t, err)
		return a
	}
	if d := uses().AllocatedResources.Tasks["t"].Devices; len(d) != 1 || len(d[0].DeviceIDs) != 1 ||
		d[0].DeviceIDs[0] != "unit0" {
		t.Errorf("it was given %+v", d)
	}
	mustSay(t, "the allocation", m.mustCLI("alloc", "status", uses().ID), "example/file/plain[unit0]")
	both := strings.NewReplacer(`job "uses"`, `job "both"`, "count = 1", "count = 2").Replace(file[2])
	m.runsTo(both, 2, "asks 2 of one kind, 1 of 2 healthy ones are free", `job "uses" has one`)

	plugin := func() int {
		var pid int
		m.eventually("the plugin to be recorded", func() bool {
			text, err := os.ReadFile(filepath.Join(m.data, "drivers", "example-device", "process.json"))
			if err != nil {
				return false
			}
			_, after, _ := strings.Cut(string(text), `"PID":`)
			_, err = fmt.Sscanf(after, "%d", &pid)
			return err == nil && syscall.Kill(pid, 0) == nil
		})
		return pid
	}
	before := plugin()
	m.kill()
	m.start()
	m.eventually("the devices to be there again", func() bool {
		out, _ := m.cli("node", "status", "-self", "-verbose")
		return strings.Contains(out, "example/file/plain[unit1]  yes")
	})
	if now := plugin(); now != before {
		t.Errorf("the plugin is process %d, and was %d", now, before)
	}
	must(t, syscall.Kill(before, syscall.SIGKILL))
	m.eventually("the plugin to be started again", func() bool { return plugin() != before })
	write("unit0", "broken: worn out")
	m.eventually("the task to hear of it", func() bool {
		out, _ := m.cli("alloc", "status", uses().ID)
		return strings.Contains(out, "unhealthy: worn out")
	})
	mustSay(t, "the node", m.mustCLI("node", "status", "-self"), "unit0]: worn out")
	if a := uses(); a.ClientStatus != api.AllocClientStatusRunning || a.TaskStates["t"].Restarts != 0 {
		t.Errorf("the task is %s, after %d restarts", a.ClientStatus, a.TaskStates["t"].Restarts)
	}
	m.mustCLI("job", "stop", "uses")
	out, _ := m.cli("job", "status", "both")
	mustSay(t, "the job that waits", out, "without a place")
	write("unit0", "")
	m.eventually("what waits to be placed", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "both")
		return strings.HasPrefix(out, "unit0,unit1\n")
	})
	m.mustCLI("job", "stop", "both")
	m.stop()
	m.eventually("a plugin without tasks to end with its agent", func() bool {
		_, err := os.Stat(filepath.Join(m.data, "drivers", "example-device", "process.json"))
		return os.IsNotExist(err)
	})
}

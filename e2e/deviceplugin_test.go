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

// withDevices is a machine with the example of a device plugin, which is built as its author would build it, and the
// directory whose files are its devices. more stands in the plugin's configuration.
func withDevices(t *testing.T, more string) (m *machine, devices string) {
	t.Helper()
	m = prepare(t, false)
	m.service = true
	dir, devices := filepath.Join(m.root, "plugins"), filepath.Join(m.root, "devices")
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "example-device"), ".")
	build.Dir, build.Env = "../examples/device", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.MkdirAll(devices, 0o755))
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()),
		fmt.Sprintf("plugin_dir = %q\nplugin \"example-device\" {\n config {\n  dir = %q\n  %s\n }\n}",
			dir, devices, more))
	return m, devices
}

// usesDevice is the guide's job that uses a device.
func usesDevice(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/guides/devices.md")
	must(t, err)
	file := pageFile.FindStringSubmatch(string(page))
	if len(file) != 3 || file[1] != "uses.nomad.hcl" {
		t.Fatalf("the guide has no uses.nomad.hcl: %v", file)
	}
	return file[2]
}

// TestDevicesOfANode: given the guide of devices and its example, which is built as its author would build it, when it
// is named in the agent's configuration, then the guide's job gets a device and what it needs to use it, what is given
// is nobody else's, tasks keep their devices over kills of the agent and of the plugin, which are found or started
// again, a broken one is said to be and given to nobody, and what waits is placed when it is mended.
func TestDevicesOfANode(t *testing.T) {
	m, devs := withDevices(t, "")
	write := func(id, text string) { must(t, os.WriteFile(filepath.Join(devs, id), []byte(text), 0o644)) }
	write("unit0", "")
	write("unit1", "")
	m.start()
	m.eventually("the devices to be there", func() bool {
		out, _ := m.cli("node", "status", "-self", "-verbose", "-stats")
		return strings.Contains(out, "example/file/plain[unit1]") && strings.Contains(out, "1.5 GHz") &&
			strings.Contains(out, "Device Stats")
	})
	uses := usesDevice(t)
	m.runsTo(strings.Replace(uses, "${device.attr.memory}", "${attr.memory}", 1), 1, "says nothing of a device")
	m.runsTo(uses, 0)
	m.eventually("the device to be used", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "uses")
		return out == "unit0\nunit0\n"
	})
	allocation := func() *api.Allocation {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "uses", true, nil)
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("%d allocations", len(all))
		}
		a, _, err := m.api.Allocations().Get(t.Context(), all[0].ID, nil)
		must(t, err)
		return a
	}
	if d := allocation().AllocatedResources.Tasks["t"].Devices; len(d) != 1 || len(d[0].DeviceIDs) != 1 ||
		d[0].DeviceIDs[0] != "unit0" {
		t.Errorf("it was given %+v", d)
	}
	mustSay(t, "the allocation", m.mustCLI("alloc", "status", allocation().ID), "example/file/plain[unit0]")
	both := strings.NewReplacer(`job "uses"`, `job "both"`, "count = 1", "count = 2").Replace(uses)
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
		out, _ := m.cli("alloc", "status", allocation().ID)
		return strings.Contains(out, "unhealthy: worn out")
	})
	mustSay(t, "the node", m.mustCLI("node", "status", "-self"), "unit0]: worn out")
	if a := allocation(); a.ClientStatus != api.AllocClientStatusRunning || a.TaskStates["t"].Restarts != 0 {
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

// TestADeviceThatItsPluginRefuses: given a device that breaks, which its plugin has not yet said, when a task is given
// it, then the plugin refuses, the task's events say so with the plugin's reason, no process is started, and the node
// is not asked again by itself; once the device is mended, it is by the command that the job's status names.
func TestADeviceThatItsPluginRefuses(t *testing.T) {
	m, devs := withDevices(t, `period = "1h"`)
	unit := filepath.Join(devs, "unit0")
	must(t, os.WriteFile(unit, nil, 0o644))
	m.start()
	m.eventually("the device to be there", func() bool {
		out, _ := m.cli("node", "status", "-self", "-verbose")
		return strings.Contains(out, "example/file/plain[unit0]  yes")
	})
	must(t, os.WriteFile(unit, []byte("broken: worn out"), 0o644))
	file := filepath.Join(m.root, "uses.nomad.hcl")
	must(t, os.WriteFile(file, []byte(usesDevice(t)), 0o644))
	m.mustCLI("job", "run", "-detach", file)
	refused := func() (found *api.TaskEvent) {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "uses", true, nil)
		must(t, err)
		for _, a := range all {
			state := a.TaskStates["t"]
			if state == nil { // not yet
				continue
			}
			for _, e := range state.Events {
				switch e.Type {
				case "Device Reservation Failed":
					found = e
				case api.TaskStarted:
					t.Fatal("a process is started without its device")
				}
			}
		}
		return found
	}
	m.eventually("the refusal to be the task's", func() bool { return refused() != nil })
	mustSay(t, "the event", refused().DisplayMessage, `device "unit0" is broken: worn out`, "berth node status -self")
	must(t, os.WriteFile(unit, nil, 0o644))
	const again = "job eval -force-reschedule uses"
	m.eventually("the way out to be said", func() bool {
		out, _ := m.cli("job", "status", "uses")
		return strings.Contains(out, "is broken: worn out") && strings.Contains(out, "berth "+again)
	})
	m.mustCLI(strings.Fields(again)...)
	m.eventually("the task to use what is mended", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "uses")
		return out == "unit0\nunit0\n"
	})
	m.mustCLI("job", "stop", "uses")
}

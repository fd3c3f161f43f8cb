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

// withHello is a machine that has the example of a driver, built as its author would build it.
func withHello(t *testing.T) *machine {
	m := prepare(t, false)
	m.service = true
	dir := filepath.Join(m.root, "plugins")
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "hello-driver"), ".")
	build.Dir, build.Env = "../examples/driver", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()),
		fmt.Sprintf("plugin_dir = %q\nplugin \"hello-driver\" {\n config { shell = \"/bin/sh\" }\n}", dir))
	m.start()
	mustSay(t, "the node", m.mustCLI("node", "status", "-self"), "Driver")
	m.eventually("the driver to be healthy", func() bool {
		nodes, _, err := m.api.Nodes().List(t.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Drivers["hello"] != nil && nodes[0].Drivers["hello"].Healthy
	})
	return m
}

// TestADriverOfOthers: given the guide of driver plugins and its example, which is built as its author would build
// it, when it is named in the agent's configuration, then the guide's job runs with it: what it is asked for and
// refuses is said before anything is placed, tasks outlive kills of the agent, of the plugin and of both at once as
// the same processes, without a restart, and their output, commands in them, events and their stop work as those of a
// built-in driver do.
func TestADriverOfOthers(t *testing.T) {
	m := withHello(t)
	page, err := os.ReadFile("../docs/guides/drivers.md")
	must(t, err)
	file := pageFile.FindStringSubmatch(string(page))
	if len(file) != 3 || file[1] != "greet.nomad.hcl" {
		t.Fatalf("the guide has no greet.nomad.hcl: %v", file)
	}
	m.runsTo(strings.Replace(file[2], "command =", "comand =", 1), 1, `config.comand`, `config.command`)
	mounting := strings.NewReplacer("    task \"t\" {", "    volume \"db\" {\n type = \"host\"\n source = \"db\"\n }\n"+
		"task \"t\" {\n volume_mount {\n volume = \"db\"\n destination = \"/db\"\n }").Replace(file[2])
	m.runsTo(mounting, 1, `task "t"`, `driver "hello" can't mount anything`, `volume "db" at "/db"`,
		"use a driver that can")
	m.runsTo(file[2], 0)
	var alloc string
	m.eventually("the task to run", func() bool {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "greet", true, nil)
		if err != nil || len(all) != 1 {
			return false
		}
		alloc = all[0].ID
		return all[0].ClientStatus == api.AllocClientStatusRunning
	})
	m.eventually("the driver's own event", func() bool { // it comes when it comes, also after the start
		return strings.Contains(m.mustCLI("alloc", "status", alloc), "Driver: greetings")
	})
	task := func() (pids []int) {
		for _, p := range processes(func(p process) bool {
			return len(p.args) == 3 && strings.HasPrefix(p.args[2], "while test ! -e local/go")
		}) {
			pids = append(pids, p.pid)
		}
		return pids
	}
	before := task()
	if len(before) != 1 {
		t.Fatalf("processes of the task: %v", before)
	}
	plugin := func() int {
		var pid int
		m.eventually("the plugin to be recorded", func() bool {
			text, err := os.ReadFile(filepath.Join(m.data, "drivers", "hello-driver", "process.json"))
			if err != nil {
				return false
			}
			_, after, _ := strings.Cut(string(text), `"PID":`)
			_, err = fmt.Sscanf(after, "%d", &pid)
			return err == nil && syscall.Kill(pid, 0) == nil
		})
		return pid
	}
	m.kill()
	m.start()
	must(t, syscall.Kill(plugin(), syscall.SIGKILL))
	m.kill()
	m.start()
	m.kill()
	must(t, syscall.Kill(plugin(), syscall.SIGKILL))
	m.start()
	m.eventually("a command in the task to run", func() bool {
		_, code := m.cli("alloc", "exec", "-job", "greet", "touch", "local/go")
		return code == 0
	})
	m.eventually("what it writes to be kept", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "greet")
		return out == "hello from t\nover\n"
	})
	if after := task(); len(after) != 1 || after[0] != before[0] {
		t.Errorf("processes of the task: %v, and were %v", after, before)
	}
	status := m.mustCLI("alloc", "status", alloc)
	mustSay(t, "the status", status, "Total Restarts = 0")
	m.mustCLI("job", "stop", "greet")
	m.eventually("the task to be gone", func() bool { return len(task()) == 0 })
	m.stop()
	m.eventually("a plugin without tasks to end with its agent", func() bool {
		_, err := os.Stat(filepath.Join(m.data, "drivers", "hello-driver", "process.json"))
		return os.IsNotExist(err)
	})
}

// TestATaskOfADriverOfOthersEndsThoughItsRecordIsLost: given a task that a plugin started as a child of its own, when
// the node loses its record of it, then it is an orphan as long as it may live, and when a person ends that, it ends.
func TestATaskOfADriverOfOthersEndsThoughItsRecordIsLost(t *testing.T) {
	m := withHello(t)
	m.run(`job "kept" {
  group "g" {
    task "t" {
      driver = "hello"
      config {
        command = "/bin/sleep"
        args    = ["918273"]
      }
    }
  }
}`)
	var first int
	lives := func(p process) bool {
		return len(p.args) == 2 && p.args[1] == "918273" && (first == 0 || p.pid == first)
	}
	m.eventually("the task to run", func() bool { return len(processes(lives)) == 1 })
	first = processes(lives)[0].pid
	var alloc string
	m.eventually("the servers to hear of it", func() bool {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "kept", true, nil)
		must(t, err)
		alloc = all[0].ID
		return all[0].ClientStatus == api.AllocClientStatusRunning
	})
	m.kill()
	must(t, os.RemoveAll(filepath.Join(m.data, "client", "client.db")))
	m.start()
	m.eventually("it to be an orphan", func() bool {
		all, _, err := m.api.Nodes().List(t.Context(), nil)
		if err != nil || len(all) != 1 {
			return false
		}
		node, _, err := m.api.Nodes().Get(t.Context(), all[0].ID, nil)
		return err == nil && len(node.Orphans) == 1 && node.Orphans[0].AllocID == alloc
	})
	if len(processes(lives)) != 1 {
		t.Error("it does not live any more, and nobody ended it")
	}
	m.mustCLI("node", "orphans", "end", "-yes", alloc)
	if n := len(processes(lives)); n != 0 { // another one is placed in its stead
		t.Errorf("it is ended, and %d processes of it live", n)
	}
	m.mustCLI("job", "stop", "kept")
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// hungry is a shellJob whose group asks for a disk of 10 MiB.
func hungry(id, driver, script string) string {
	return strings.NewReplacer(
		"group \"g\" {", "group \"g\" {\n ephemeral_disk {\n size = 10\n}",
		"resources {", "logs {\n max_files = 1\n max_file_size = 1\n}\nresources {",
	).Replace(shellJob(id, driver, script, ""))
}

// TestATaskIsHeldToItsDisk: given a task that takes a part of its ephemeral disk, then that is shown; when it takes too
// much, while no agent runs, then the next agent stops it, and says what it took, what it may take and where it lies.
func TestATaskIsHeldToItsDisk(t *testing.T) {
	m := inService(t)
	m.start()
	const script = `head -c 3M /dev/zero > /local/part
while [ ! -e /alloc/data/go ]; do sleep 0.1; done
head -c 30M /dev/zero > /local/big; exec sleep 1000`
	m.run(hungry("hungry", "exec", script))
	a := m.running("hungry", 1)[0]
	m.eventually("what it takes to be shown", func() bool {
		out, code := m.cli("alloc", "status", "-stats", a.ID)
		return code == 0 && strings.Contains(out, "3 MiB/10 MiB (shared by the tasks)")
	})
	m.kill()
	must(t, os.WriteFile(filepath.Join(m.data, "alloc", a.ID, "alloc/data/go"), nil, 0o644))
	m.start()
	mustSay(t, "the end", m.failure("hungry"), `Task "t" is stopped: the allocation takes `,
		"of the node's disk, ephemeral_disk allows 10 MiB", " in t/local")
	m.stopJob("hungry")
}

// TestATaskHasAFileSystemOfItsOwn: given an agent that gives allocs file systems of their own, when a task writes more
// than its group asks for, then the kernel refuses it, and the task runs on, over a crash of the agent, too. Of an
// alloc that is collected nothing is left.
func TestATaskHasAFileSystemOfItsOwn(t *testing.T) {
	m := inService(t)
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), "plugin \"raw_exec\" {\n config { enabled = true }\n}")
	m.encloses()
	m.start()
	for _, driver := range []string{"exec", "raw_exec"} {
		job := "bounded-" + driver
		// Root takes what is reserved for output, too.
		const script = `why=$(head -c 30M /dev/zero 2>&1 > $NOMAD_TASK_DIR/big); rm $NOMAD_TASK_DIR/big
echo "$why"; echo still here; exec sleep 1000`
		m.run(hungry(job, driver, script))
		a := m.running(job, 1)[0]
		m.eventually("the task to be refused", func() bool { return strings.Contains(m.output(a.ID), "still here") })
		mustSay(t, "the task", m.output(a.ID), "No space left on device")
		pid := m.pid(a.ID, "t", "sleep")
		m.eventually("what it takes to be shown", func() bool {
			out, code := m.cli("alloc", "status", "-stats", a.ID)
			return code == 0 && strings.Contains(out, "/10 MiB (shared by the tasks)")
		})
		m.kill()
		m.start()
		m.alive("a crash of the agent", pid)
		dir := filepath.Join(m.data, "alloc", a.ID)
		m.stopJob(job)
		_, _, err := m.api.Jobs().Deregister(t.Context(), job, api.JobDeregisterOptions{Purge: true}, nil)
		must(t, err)
		m.mustCLI("system", "gc")
		m.eventually("nothing to be left of it", func() bool {
			_, err := os.Stat(dir)
			left, globErr := filepath.Glob(filepath.Join(m.data, "alloc/.images/*"))
			must(t, globErr)
			return os.IsNotExist(err) && len(left) == 0
		})
	}
}

// encloses has the agent give each alloc a file system of its own.
func (m *machine) encloses() {
	m.t.Helper()
	config := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(config)
	must(m.t, err)
	must(m.t, os.WriteFile(config, []byte(strings.Replace(string(text), "local_csi =",
		"ephemeral_disk { enforce = \"image\" }\n  local_csi =", 1)), 0o600))
}

// TestInterruptUnmountsTheDisksOfAllocs: given a -dev agent that gives allocs file systems of their own, with an alloc
// that has ended and one that runs, when it is interrupted, then no mount and no loop device of them is left, and the
// next agent with its data_dir shows what they wrote.
func TestInterruptUnmountsTheDisksOfAllocs(t *testing.T) {
	m := prepare(t, false)
	m.encloses()
	m.start()
	m.run(hungry("ended", "exec", "echo written; exit 1"))
	m.failure("ended")
	all, _, err := m.api.Jobs().Allocations(t.Context(), "ended", true, nil)
	must(t, err)
	m.run(hungry("runs", "raw_exec", "exec sleep 1000"))
	m.running("runs", 1)
	if got := len(loopDevices(m.root)); got != 2 {
		t.Errorf("the allocs have %d file systems of their own", got)
	}
	must(t, m.stop())
	if left := leftovers(m); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m.start()
	m.eventually("what the ended task wrote to be shown", func() bool {
		out, code := m.cli("alloc", "logs", all[0].ID)
		return code == 0 && out == "written\n"
	})
}

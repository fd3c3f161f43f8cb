package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// abandonEnv names the file in which a run of the tests that is about to be killed says what it has started.
const abandonEnv = "BERTH_E2E_ABANDON"

// abandoned is what such a run leaves.
type abandoned struct {
	Agent, Task  int
	Root, Binary string
}

// TestARunThatIsKilledLeavesNoAgent: given a run of these tests with an agent and a task, when it ends without a word,
// as by its time-out, then the agent ends, and its task with it.
func TestARunThatIsKilledLeavesNoAgent(t *testing.T) {
	if said := os.Getenv(abandonEnv); said != "" {
		abandon(t, said)
	}
	said := filepath.Join(t.TempDir(), "said")
	run := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	run.Env = append(os.Environ(), abandonEnv+"="+said)
	must(t, run.Start())
	var left abandoned
	m := &machine{t: t}
	m.eventually("the run to have an agent and a task", func() bool {
		data, err := os.ReadFile(said)
		return err == nil && json.Unmarshal(data, &left) == nil
	})
	t.Cleanup(func() {
		must(t, sweep(left.Root))
		must(t, os.RemoveAll(filepath.Dir(left.Binary)))
	})
	must(t, run.Process.Kill())
	_ = run.Wait() // it was killed
	gone := func(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }
	m.eventually("the agent and its task to end", func() bool { return gone(left.Agent) && gone(left.Task) })
}

// abandon starts an agent with a task, says so, and waits to be killed.
func abandon(t *testing.T, said string) {
	m := newMachine(t, false)
	m.run(shell{id: "left", script: lasting}.hcl())
	left := abandoned{
		Agent:  m.cmd.Process.Pid,
		Task:   m.pid(m.running("left", 1)[0].ID, "t", "/bin/sh"),
		Root:   m.root,
		Binary: binary,
	}
	data, err := json.Marshal(left)
	must(t, err)
	must(t, os.WriteFile(said+".new", data, 0o600))
	must(t, os.Rename(said+".new", said))
	time.Sleep(patience)
	t.Fatal("nobody killed this run")
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
)

// append adds to the configuration of the agent that is started next.
func (m *machine) append(hcl string) {
	m.t.Helper()
	f, err := os.OpenFile(filepath.Join(m.root, "agent.hcl"), os.O_APPEND|os.O_WRONLY, 0)
	must(m.t, err)
	_, err = f.WriteString(hcl)
	must(m.t, err)
	must(m.t, f.Close())
}

// failure waits until a shellJob's task has failed, and returns what its events say.
func (m *machine) failure(job string) string {
	m.t.Helper()
	all := await(m, "job "+job+" to fail", m.allocs(job), func(all []*api.AllocationListStub) bool {
		return slices.ContainsFunc(all, func(a *api.AllocationListStub) bool {
			return a.ClientStatus == api.AllocClientStatusFailed
		})
	})
	var reported []string
	for _, a := range all {
		for _, e := range a.TaskStates["t"].Events {
			reported = append(reported, e.DisplayMessage)
		}
	}
	return strings.Join(reported, "\n")
}

// mustSay reports the words that a text lacks.
func mustSay(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}

// TestHostNamespacesAreTheAgentsToGive: among the node's processes a task with setuid or dac_override is root of the
// node.
func TestHostNamespacesAreTheAgentsToGive(t *testing.T) {
	m := newMachine(t, false)
	for mode, option := range map[string]string{"pid_mode": "allow_host_pid", "ipc_mode": "allow_host_ipc"} {
		_, err := m.register(shellJob(mode, "exec", "exec sleep 1000", mode+` = "host"`))
		mustSay(t, "the refusal of "+mode, fmt.Sprint(err), `task "t"`, mode, option+" = true", `plugin "exec"`)
	}
	_, err := m.register(shellJob("caps", "exec", "exec sleep 1000", `cap_add = ["net_admin"]`))
	mustSay(t, "the refusal of a capability", fmt.Sprint(err), "config.cap_add", `"net_admin"`, "allow_caps")
	must(t, m.stop())
	m.append(`
plugin "exec" {
  config {
    allow_host_pid = true
    allow_host_ipc = true
    allow_caps     = ["all"]
  }
}
`)
	m.start()
	nodes, _, err := m.api.Nodes().List(t.Context(), nil)
	must(t, err)
	// The record of before the restart is ready as well.
	m.eventually("the node's attributes to tell what it allows", func() bool {
		node, _, err := m.api.Nodes().Get(t.Context(), nodes[0].ID, nil)
		must(t, err)
		pid, ipc := node.Attributes["driver.exec.allow_host_pid"], node.Attributes["driver.exec.allow_host_ipc"]
		return pid == "1" && ipc == "1"
	})
	for i, cap := range []string{"setuid", "setgid", "dac_override", "dac_read_search", "sys_ptrace", "sys_admin"} {
		job := fmt.Sprint("asks", i)
		m.run(shellJob(job, "exec", "exec sleep 1000", fmt.Sprintf("pid_mode = \"host\"\ncap_add = [%q]", cap)))
		mustSay(t, "the refusal of "+cap, m.failure(job), "cap_add", strconv.Quote(cap), "pid_mode")
		m.stopJob(job)
	}
	for name, add := range map[string]string{"plain": "", "all": `cap_add = ["all"]`} {
		m.run(shellJob(name, "exec", "grep CapBnd /proc/self/status; readlink /proc/self/ns/pid; exec sleep 1000",
			"pid_mode = \"host\"\n"+add))
		a := m.running(name, 1)[0]
		m.eventually("the task to tell its capabilities", func() bool {
			return strings.Count(m.output(a.ID), "\n") >= 2
		})
		f := strings.Fields(m.output(a.ID))
		bound, err := strconv.ParseUint(f[1], 16, 64)
		must(t, err)
		for c, name := range map[int]string{unix.CAP_SETUID: "setuid", unix.CAP_SETGID: "setgid",
			unix.CAP_DAC_OVERRIDE:    "dac_override",
			unix.CAP_DAC_READ_SEARCH: "dac_read_search", unix.CAP_SYS_PTRACE: "sys_ptrace",
			unix.CAP_SYS_ADMIN: "sys_admin", unix.CAP_CHOWN: "chown", unix.CAP_FOWNER: "fowner"} {
			if bound&(1<<c) != 0 {
				t.Errorf("a task among the node's processes has %s: %s", name, f[1])
			}
		}
		if bound&(1<<unix.CAP_NET_BIND_SERVICE) == 0 {
			t.Errorf("it has lost a capability that does no harm: %s", f[1])
		}
		if ours, err := os.Readlink("/proc/self/ns/pid"); err != nil || f[2] != ours {
			t.Errorf("it is in pid namespace %s, the node's is %s (%v)", f[2], ours, err)
		}
		m.stopJob(name)
	}
}

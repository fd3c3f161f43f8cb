package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/api"
)

// TestMistakesWithUsersAreAnswered: given an agent whose raw_exec denies a user, when a job asks to be that user, then
// the answer is as in testdata/mistakes-users.txt.
func TestMistakesWithUsersAreAnswered(t *testing.T) {
	m := prepare(t, false)
	m.append("plugin \"raw_exec\" {\n config {\n enabled = true\n denied_users = [\"games\"]\n}\n}\n")
	m.start()
	for job := range m.errs(mistakes(t, "testdata/mistakes-users.txt"), strings.NewReplacer()) {
		m.stopJob(job)
	}
}

// TestAnAgentThatIsNotRootIsSaid: given an agent that may mount nothing and confine nobody, when a job is checked, then
// the answer names the driver, the node and the way out, and so does the agent's log.
func TestAnAgentThatIsNotRootIsSaid(t *testing.T) {
	m := prepare(t, false)
	m.service = true
	m.lend(m.program(), "berth")
	m.earlier = filepath.Join(m.rig, "berth")
	must(t, exec.Command("chown", "-R", "nobody", m.root).Run())
	m.wrap = func(c *exec.Cmd) { c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534} }
	m.start()
	for job := range m.errs(mistakes(t, "testdata/mistakes-root.txt"), strings.NewReplacer()) {
		m.stopJob(job)
	}
	if !m.logged("the agent does not run as root", "run it as root", "level=WARN") {
		t.Error("the agent's log does not warn of it")
	}
}

// TestACrashLoopIsSaid: given a task that ends by itself each time, when somebody asks for its job and its allocation,
// then both name the task, how it ended, what comes next, and where its own words are.
func TestACrashLoopIsSaid(t *testing.T) {
	m := newMachine(t, false)
	m.run(`job "loop" {
  group "g" {
    restart {
      attempts = 1
      delay    = "1h"
      interval = "2h"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo FATAL: no /etc/db.conf >&2; exit 78"]
      }
    }
  }
}`)
	all := await(m, "the task to be restarted", m.allocs("loop"), func(all []*api.AllocationListStub) bool {
		return len(all) == 1 && all[0].Standing != nil && all[0].Standing.Trouble != ""
	})
	short := all[0].ID[:8]
	m.says(m.mustCLI("job", "status", "loop"), `Allocation "`+short+`": task "t" exited with code 78; it restarts in `,
		"(attempt 2 of 2)", `The last lines of task "t"`, "| FATAL: no /etc/db.conf")
	m.says(m.mustCLI("alloc", "status", short), `task "t" exited with code 78; it restarts in `,
		"see what it wrote with: berth alloc logs -stderr "+short+" t")
	m.stopJob("loop")
}

// TestAPluginThatHangsIsSaid: given a plugin that does not answer, when somebody asks for the job and the allocation
// that wait for it, or for its volume, then each names the volume, the call, the plugin, and where to look.
func TestAPluginThatHangsIsSaid(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	p.rules("(NodeStage * hold)")
	m.run(writer{id: "user", volume: "a"}.hcl())
	const hangs = "stage in progress, plugin \"own\" was asked at "
	all := await(m, "who waits to be named", m.allocs("user"), func(all []*api.AllocationListStub) bool {
		return len(all) == 1 && all[0].Standing != nil && strings.Contains(all[0].Standing.Waits, hangs)
	})
	short := all[0].ID[:8]
	for _, args := range [][]string{{"job", "status", "user"}, {"alloc", "status", short}, {"volume", "status", "a"}} {
		m.says(m.mustCLI(args...), hangs, "and has not answered yet; see berth plugin status own")
	}
	m.says(m.mustCLI("job", "status", "user"), `Allocation "`+short+`" waits: volume "a": `)
	p.rules()
	m.running("user", 1)
	m.stopJob("user")
	m.free("a")
	m.remove("a")
}

// TestAPluginThatRefusesToUnstageIsSaid: given a plugin that does not let a volume go, when somebody asks for the job
// that has ended, then it names the volume, the plugin's words, the next try, and where that is followed.
func TestAPluginThatRefusesToUnstageIsSaid(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	short := m.running("user", 1)[0].ID[:8]
	p.rules("(NodeUnstage * before FailedPrecondition)")
	m.tellStop("user")
	m.eventually("the refusal to be said", func() bool {
		return strings.Contains(m.mustCLI("job", "status", "user"), "NodeUnstageVolume answered FailedPrecondition")
	})
	m.says(m.mustCLI("job", "status", "user"), "stopped, releasing its storage",
		`Allocation "`+short+`" has ended and is releasing what it holds: volume "a": being released`,
		"injected by the proxy", "next try at ", "follow it with: berth volume status a")
	m.says(m.mustCLI("volume", "status", "a"), `held by allocation `+short+` of job "user"`, "next try at ")
	p.rules()
	m.free("a")
	m.remove("a")
}

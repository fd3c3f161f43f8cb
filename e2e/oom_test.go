package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/testkit/dockerd"
)

const overLimit = `
job "hungry-%[1]s" {
  type = "batch"
  group "child" {
    task "t" {
      driver = %[1]q
      config {
        %[2]s
        command = "/bin/sh"
        args    = ["-c", "tail /dev/zero; while true; do sleep 1; done"]
      }
      resources {
        cpu    = 50
        memory = 20
      }
    }
  }
  group "whole" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = %[1]q
      config {
        %[2]s
        command = "/bin/sh"
        args    = ["-c", "exec tail /dev/zero"]
      }
      resources {
        cpu    = 50
        memory = 20
      }
    }
  }
}`

// TestATaskOutOfMemorySaysSo: given tasks of exec and of Docker that take more memory than they have, when the kernel
// kills a process of one that goes on, then an event of the task says so while it runs, and what is to be raised; and
// one that is killed itself has failed by that signal.
func TestATaskOutOfMemorySaysSo(t *testing.T) {
	daemon := dockerd.New(t)
	m := prepare(t, false)
	m.service = true
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), fmt.Sprintf(
		"plugin \"docker\" {\n config {\n  endpoint = \"unix://%s\"\n }\n}", daemon.Socket()))
	m.start()
	for driver, config := range map[string]string{
		"exec":   "",
		"docker": fmt.Sprintf("image = %q", dockerd.Image),
	} {
		job := "hungry-" + driver
		m.run(fmt.Sprintf(overLimit, driver, config))
		a := m.of(job, "child", func(a *api.AllocationListStub) bool {
			state := a.TaskStates["t"]
			if state == nil || a.ClientStatus != api.AllocClientStatusRunning {
				return false
			}
			for _, e := range state.Events {
				if strings.Contains(e.DisplayMessage, "A process of the task was killed") {
					return true
				}
			}
			return false
		})
		last := a.TaskStates["t"].Events[len(a.TaskStates["t"].Events)-1]
		mustSay(t, "the event of "+driver, last.DisplayMessage, "at its memory limit", "20 MiB", "memory")
		if state := a.TaskStates["t"]; state.State != "running" || state.Restarts != 0 {
			t.Errorf("%s: the task is %s, after %d restarts", driver, state.State, state.Restarts)
		}
		want := []string{"Exit Code: 137, Signal: 9", "OOM Killed"}
		if driver == "docker" { // a daemon that hears of the end before it hears why never says why
			want = want[:1]
		}
		mustSay(t, "the end of "+driver, m.ending(job, "whole"), want...)
		m.mustCLI("job", "stop", "-purge", job)
	}
}

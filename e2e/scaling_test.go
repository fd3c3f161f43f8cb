package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

// scaledFile is a service with two allocations, between one and three; VERSION tells its versions apart.
const scaledFile = `job "web" {
  group "web" {
    count = 2
    scaling {
      max = 3
      policy {
        cooldown = "1m"
      }
    }
    update {
      min_healthy_time = "0s"
    }
    task "main" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
      env {
        VERSION = "v-VERSION"
      }
    }
  }
}
`

// started says of each running allocation of job web when its task began.
func (m *machine) started() map[string]string {
	list, _, err := m.api.Jobs().Allocations(m.t.Context(), "web", false, nil)
	must(m.t, err)
	out := map[string]string{}
	for _, a := range list {
		if a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun {
			out[a.ID] = fmt.Sprint(a.TaskStates["main"].StartedAt)
		}
	}
	return out
}

// TestAJobIsScaledTaggedAndRestarted: given a running service, when it is scaled within its bounds, then so many run,
// and the scaling is remembered; beyond them it is refused. When it is restarted, then each task began anew in the same
// allocation; rescheduled, in others. A version with a tag is gone back to by its name.
func TestAJobIsScaledTaggedAndRestarted(t *testing.T) {
	m := inService(t)
	m.start()
	file := filepath.Join(t.TempDir(), "web.hcl")
	run := func(version string) {
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(scaledFile, "v-VERSION", version)), 0o644))
		m.mustCLI("job", "run", file)
	}
	run("one")
	mustSay(t, "the scaling", m.mustCLI("job", "scale", "web", "3"), `group "web": count is 3 now`)
	if n := len(m.started()); n != 3 {
		t.Errorf("%d allocations run of 3", n)
	}
	refused, code := m.cli("job", "scale", "-detach", "web", "4")
	if code == 0 {
		t.Error("a count beyond the bounds is taken")
	}
	mustSay(t, "the refusal", refused, "greater than scaling policy maximum: 4 > 3")
	mustSay(t, "the events", m.mustCLI("job", "scaling-events", "web"), "web")
	var list []*api.ScalingPolicyListStub
	must(t, json.Unmarshal([]byte(m.mustCLI("scaling", "policy", "list", "-json")), &list))
	if len(list) != 1 || list[0].Target["Group"] != "web" {
		t.Fatalf("policies: %+v", list)
	}
	mustSay(t, "the policy", m.mustCLI("scaling", "policy", "info", list[0].ID[:8]), `"cooldown": "1m"`)

	before := m.started()
	mustSay(t, "the restart", m.mustCLI("job", "restart", "-batch-size", "2", "web"),
		"All 3 allocations were restarted")
	m.eventually("every task to have begun anew", func() bool {
		now := m.started()
		for id, at := range before {
			if now[id] == "" || now[id] == at {
				return false
			}
		}
		return len(now) == len(before)
	})
	mustSay(t, "the rescheduling", m.mustCLI("job", "restart", "-reschedule", "-batch-size", "50%", "web"),
		"All 3 allocations were restarted")
	m.eventually("three others to run", func() bool {
		now := m.started()
		for id := range before {
			if now[id] != "" {
				return false
			}
		}
		return len(now) == 3
	})

	m.mustCLI("job", "tag", "apply", "-name", "golden", "web")
	run("two")
	mustSay(t, "the difference", m.mustCLI("job", "history", "-p", "-diff-tag", "golden", "web"), "VERSION")
	m.mustCLI("job", "revert", "web", "golden")
	versions, _, err := m.api.Jobs().Versions(t.Context(), "web", false, nil)
	must(t, err)
	newest := versions.Versions[0]
	if env := newest.TaskGroups[0].Tasks[0].Env["VERSION"]; env != "one" || newest.VersionTag != nil {
		t.Errorf("what was gone back to says %q, with tag %v", env, newest.VersionTag)
	}
	if !slices.ContainsFunc(versions.Versions, func(j *api.Job) bool { return j.VersionTag != nil }) {
		t.Error("no version has the tag any more")
	}
	m.mustCLI("job", "stop", "web")
}

// TestARunThatIsGoneBackFromShowsWhatItIsGoneBackTo: given a version that works, when one is run whose task fails, and
// the servers go back, then the run follows that deployment as well, and ends with 1, for what was asked for is not
// what runs.
func TestARunThatIsGoneBackFromShowsWhatItIsGoneBackTo(t *testing.T) {
	m := inService(t)
	m.start()
	file := filepath.Join(t.TempDir(), "web.hcl")
	write := func(command string) {
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(revertedFile, "COMMAND", command)), 0o644))
	}
	write("sleep infinity")
	m.mustCLI("job", "run", file)
	write("exit 1")
	said, code := m.cli("job", "run", file)
	if code != 1 {
		t.Errorf("it ended with %d:\n%s", code, said)
	}
	mustSay(t, "the run", said, "rolling back to job version 0")
	mustSay(t, "the run", said, "Deployment completed successfully")
	mustSay(t, "the run", said, "version 2, which says what that one said, runs instead")
	m.mustCLI("job", "stop", "web")
}

const revertedFile = `job "web" {
  group "web" {
    update {
      auto_revert       = true
      min_healthy_time  = "1s"
      healthy_deadline  = "20s"
      progress_deadline = "0s"
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "main" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "COMMAND"]
      }
    }
  }
}
`

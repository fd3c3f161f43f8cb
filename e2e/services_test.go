package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/api"
)

// store is a job of two database servers that are found as a service, with a check that restarts them.
func store(tags string) string {
	return fmt.Sprintf(`
job "store" {
  group "g" {
    count          = 2
    shutdown_delay = "3s"
    network {
      port "db" {}
    }
    service {
      name     = "store"
      provider = "nomad"
      port     = "db"
      tags     = [%s]
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
        check_restart {
          limit = 2
          grace = "1s"
        }
      }
    }
    restart {
      attempts = 2
      delay    = "1s"
      interval = "30m"
      mode     = "fail"
    }
    update {
      min_healthy_time = "1s"
    }
    task "redis" {
      driver = "raw_exec"
      config {
        command = "/usr/bin/redis-server"
        args    = ["--port", "$${NOMAD_PORT_db}", "--save", "", "--daemonize", "no"]
      }
    }
  }
}
`, tags)
}

// answers sends a command to a database server and returns the answer; empty: there is none.
func answers(r *api.ServiceRegistration, command ...string) string {
	args := append([]string{"-h", r.Address, "-p", strconv.Itoa(r.Port)}, command...)
	out, err := exec.Command("redis-cli", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (m *machine) found(name string) reader[[]*api.ServiceRegistration] {
	return func(ctx context.Context, o *api.QueryOptions) ([]*api.ServiceRegistration, *api.QueryMeta, error) {
		return m.api.Services().Get(ctx, name, o)
	}
}

func (m *machine) instances(name, what string, ok func([]*api.ServiceRegistration) bool) []*api.ServiceRegistration {
	m.t.Helper()
	return await(m, what, m.found(name), ok)
}

// TestServicesAreFound: two database servers are found where they answer; one that is to stop is found no more while it
// still answers; new tags are shown without a restart; none is lost or doubled when the agent is killed; one that a
// person took away stays away; and when the job is stopped nobody is found.
func TestServicesAreFound(t *testing.T) {
	m := newMachine(t, false)
	m.runsTo(store(`"i${NOMAD_ALLOC_INDEX}"`), 0, "2 allocations, healthy")
	two := func(l []*api.ServiceRegistration) bool { return len(l) == 2 }
	both := m.instances("store", "two servers to be found", two)
	tags := map[string]bool{}
	for _, r := range both {
		if got := answers(r, "PING"); got != "PONG" {
			t.Errorf("where %s is found nobody answers", r.ID)
		}
		tags[strings.Join(r.Tags, ",")] = true
	}
	if !tags["i0"] || !tags["i1"] {
		t.Errorf("they have the tags %v", tags)
	}
	out, code := m.cli("service", "list")
	if m.says(out, "store", "[i0,i1]"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	out, _ = m.cli("service", "info", "store")
	m.says(out, net.JoinHostPort(both[0].Address, strconv.Itoa(both[0].Port)), both[1].AllocID[:8])
	out, _ = m.cli("alloc", "checks", both[0].AllocID)
	m.says(out, `service: "store" check`, "healthiness", "success", "tcp ok")
	if out, code = m.cli("service", "info", "nobody"); code != 1 || !strings.Contains(out, "nobody is found") {
		t.Errorf("exit code %d: %s", code, out)
	}

	before := m.running("store", 2)
	m.runsTo(store(`"v2"`), 0, "2 allocations, healthy")
	m.instances("store", "the new tags", func(l []*api.ServiceRegistration) bool {
		return len(l) == 2 && strings.Join(l[0].Tags, "") == "v2" && strings.Join(l[1].Tags, "") == "v2"
	})
	for _, a := range m.running("store", 2) {
		if a.ID != before[0].ID && a.ID != before[1].ID || a.TaskStates["redis"].Restarts > 0 {
			t.Errorf("for new tags allocation %s was started anew: %+v", a.ID, a.TaskStates["redis"])
		}
	}

	m.crash()
	m.start()
	after := m.instances("store", "both after a crash", two)
	for i, r := range after {
		if answers(r, "PING") != "PONG" || r.ID != both[i].ID {
			t.Errorf("after the crash %s is found at %s:%d", r.ID, r.Address, r.Port)
		}
	}
	m.eventually("the checks to be asked anew", func() bool {
		checks, err := m.api.Allocations().Checks(t.Context(), both[0].AllocID, nil)
		must(t, err)
		for _, c := range checks {
			return c.Status == "success"
		}
		return false
	})

	gone := after[0]
	if out, code := m.cli("alloc", "stop", "-detach", gone.AllocID); code != 0 {
		t.Fatal(out)
	}
	m.instances("store", "the stopped one to be found no more", func(l []*api.ServiceRegistration) bool {
		for _, r := range l {
			if r.ID == gone.ID {
				return false
			}
		}
		return true
	})
	if answers(gone, "PING") != "PONG" {
		t.Error("it was found until its end, or later")
	}
	both = m.instances("store", "another one in its place", two)

	if out, code := m.cli("service", "delete", "store", both[0].ID); code != 0 {
		t.Fatal(out)
	}
	m.crash()
	m.start()
	left := m.instances("store", "the one that stays", func(l []*api.ServiceRegistration) bool { return len(l) == 1 })
	if left[0].ID != both[1].ID || answers(both[0], "PING") != "PONG" {
		t.Errorf("%s was taken away, found is %s", both[0].ID, left[0].ID)
	}
	if out, code := m.cli("service", "delete", "store", both[0].ID); code == 0 {
		t.Errorf("once more: %s", out)
	}
	m.stopJob("store")
	m.instances("store", "nobody to be found", func(l []*api.ServiceRegistration) bool { return len(l) == 0 })
}

// TestAServiceThatDoesNotAnswerIsRestarted: a server that stops to listen while its process lives is not healthy, is
// restarted after two failures, is healthy again, and after more of them than its restart policy allows it is replaced.
func TestAServiceThatDoesNotAnswerIsRestarted(t *testing.T) {
	m := newMachine(t, false)
	m.runsTo(strings.Replace(store(`"a"`), "count          = 2", "count = 1", 1), 0, "1 allocation, healthy")
	one := m.running("store", 1)[0]
	at := m.instances("store", "it to be found", func(l []*api.ServiceRegistration) bool { return len(l) == 1 })[0]
	deafen := func() {
		t.Helper()
		m.eventually("it to answer", func() bool { return answers(at, "PING") == "PONG" })
		if got := answers(at, "CONFIG", "SET", "port", "0"); got != "OK" {
			t.Fatalf("it does not stop to listen: %q", got)
		}
	}
	deafen()
	await(m, "it to be restarted", m.allocs("store"), func(l []*api.AllocationListStub) bool {
		return len(l) == 1 && l[0].ID == one.ID && l[0].TaskStates["redis"].Restarts == 1 &&
			l[0].TaskStates["redis"].State == "running"
	})
	out, _ := m.cli("alloc", "status", one.ID)
	m.says(out, "Restart Signaled", "failed 2 times in a row", "connection refused")
	await(m, "it to be healthy again", m.allocs("store"), func(l []*api.AllocationListStub) bool {
		h := l[0].DeploymentStatus
		return h != nil && h.Healthy != nil && *h.Healthy
	})
	for range 2 {
		deafen()
		was := m.now("store")[0].TaskStates["redis"].Restarts
		await(m, "it to be restarted, or given up", m.allocs("store"), func(l []*api.AllocationListStub) bool {
			for _, a := range l {
				if a.ID == one.ID {
					return a.ClientStatus == "failed" || a.TaskStates["redis"].Restarts > was
				}
			}
			return false
		})
	}
	await(m, "it to be given up", m.allocs("store"), func(l []*api.AllocationListStub) bool {
		for _, a := range l {
			if a.ID == one.ID {
				return a.ClientStatus == "failed"
			}
		}
		return false
	})
	m.stopJob("store")
}

// TestServicesAreFoundInNetworksOfTheirOwn: two servers on one port each in a network of its own are found there, are
// asked there by their checks, and answer; one of them that asks the other by the address that is found gets its
// answer.
func TestServicesAreFoundInNetworksOfTheirOwn(t *testing.T) {
	m := newMachine(t, false)
	hcl := strings.NewReplacer(`port "db" {}`, "mode = \"bridge\"\n      port \"db\" {\n        to = 6379\n      }",
		`port     = "db"`, "port = \"db\"\n      address_mode = \"alloc\"",
		`"--daemonize", "no"`, `"--daemonize", "no", "--protected-mode", "no", "--bind", "0.0.0.0"`).
		Replace(store(`"a"`))
	m.runsTo(hcl, 0, "2 allocations, healthy")
	both := m.instances("store", "two servers", func(l []*api.ServiceRegistration) bool { return len(l) == 2 })
	if both[0].Port != 6379 || both[1].Port != 6379 || both[0].Address == both[1].Address {
		t.Fatalf("found are %s:%d and %s:%d", both[0].Address, both[0].Port, both[1].Address, both[1].Port)
	}
	for _, r := range both {
		if answers(r, "PING") != "PONG" {
			t.Errorf("where %s is found nobody answers", r.ID)
		}
		checks, err := m.api.Allocations().Checks(t.Context(), r.AllocID, nil)
		must(t, err)
		if len(checks) != 1 {
			t.Errorf("the checks of %s are %v", r.ID, checks)
		}
	}
	out, code := m.cli("alloc", "exec", both[0].AllocID, "redis-cli", "-h", both[1].Address, "PING")
	if code != 0 || strings.TrimSpace(out) != "PONG" {
		t.Errorf("one asks the other: exit code %d, %q", code, out)
	}
	m.stopJob("store")
	m.instances("store", "nobody", func(l []*api.ServiceRegistration) bool { return len(l) == 0 })
}

// scripted is a job whose health a script decides: of its group's service, or of its task's, with the driver that runs
// it.
func scripted(driver string, ofTask bool) string {
	service, task := `
    service {
      name     = "scripted"
      provider = "nomad"
      check {
        type     = "script"
        task     = "t"
        command  = "/bin/sh"
        args     = ["$${NOMAD_TASK_DIR}/check", "$${NOMAD_ALLOC_INDEX}"]
        interval = "1s"
        timeout  = "1s"
        check_restart {
          limit = 2
          grace = "1s"
        }
      }
    }`, ""
	if ofTask {
		service, task = "", strings.Replace(service, `task     = "t"`, "", 1)
	}
	return fmt.Sprintf(`
job "scripted" {
  group "g" {
    %s
    restart {
      attempts = 2
      delay    = "1s"
      interval = "30m"
      mode     = "fail"
    }
    update {
      min_healthy_time = "1s"
    }
    task "t" {
      driver = %q
      %s
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      template {
        destination = "local/check"
        data        = <<EOT
printf 'index %%s of %%s' "$1" "$NOMAD_TASK_NAME"
cd "$NOMAD_TASK_DIR"
if test -e hang -a ! -e hung; then
  touch hung
  timeout 1000 sleep 7110471 & setsid sleep 7110471
fi
test ! -e down
EOT
      }
    }
  }
}
`, service, driver, task)
}

// TestAScriptDecidesHealth: it runs in its task, in its sandbox and its environment; one that does not end in time is
// killed with all that it started; one that fails twice restarts its task, which counts; after a crash of the agent it
// is run anew.
func TestAScriptDecidesHealth(t *testing.T) {
	m := newMachine(t, false)
	for driver, ofTask := range map[string]bool{"exec": true, "raw_exec": false} {
		m.runsTo(scripted(driver, ofTask), 0, "1 allocation, healthy")
		one := m.running("scripted", 1)[0]
		says := func(status, output string) {
			t.Helper()
			m.eventually(driver+": the check to say "+output, func() bool {
				checks, err := m.api.Allocations().Checks(t.Context(), one.ID, nil)
				must(t, err)
				for _, c := range checks {
					if c.Status == status && strings.Contains(c.Output, output) {
						return true
					}
				}
				return false
			})
		}
		says("success", "index 0 of t")
		m.touch(one.ID, "hang")
		says("failure", "it did not end within the timeout of 1s")
		m.eventually(driver+": nothing to be left of it", func() bool {
			return len(processes(func(x process) bool {
				return strings.Contains(strings.Join(x.args, " "), "sleep 7110471")
			})) == 0
		})
		says("success", "index 0 of t")
		m.crash()
		m.start()
		says("success", "index 0 of t")
		m.touch(one.ID, "down")
		await(m, driver+": it to be restarted", m.allocs("scripted"), func(l []*api.AllocationListStub) bool {
			return slices.ContainsFunc(l, func(a *api.AllocationListStub) bool {
				return a.ID == one.ID && a.TaskStates["t"].Restarts >= 1
			})
		})
		out, _ := m.cli("alloc", "status", one.ID)
		m.says(out, "Restart Signaled", "failed 2 times in a row", "it ended with code 1")
		m.stopJob("scripted")
	}
}

// touch makes an empty file in the local directory of an alloc's task t.
func (m *machine) touch(id, name string) {
	m.t.Helper()
	must(m.t, os.WriteFile(filepath.Join(m.data, "alloc", id, "t", "local", name), nil, 0o666))
}

// TestACanaryIsFoundByItsOwnTags: beside those of before, until it is promoted; a crash of the agent changes nothing.
func TestACanaryIsFoundByItsOwnTags(t *testing.T) {
	m := newMachine(t, false)
	hcl := func(version string) string {
		return strings.NewReplacer("count          = 2", "count = 1",
			"min_healthy_time =", "canary = 1\n      min_healthy_time =",
			`port     = "db"`, "port = \"db\"\n      canary_tags = [\"try\"]",
			`driver = "raw_exec"`, "driver = \"raw_exec\"\n      env { VERSION = \""+version+"\" }").
			Replace(store(`"live"`))
	}
	m.runsTo(hcl("1"), 0, "1 allocation, healthy")
	m.run(hcl("2"))
	tags := func(want ...string) func(l []*api.ServiceRegistration) bool {
		return func(l []*api.ServiceRegistration) bool {
			var got []string
			for _, r := range l {
				got = append(got, strings.Join(r.Tags, ","))
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
	}
	m.instances("store", "the canary beside the one of before", tags("live", "try"))
	m.crash()
	m.start()
	m.instances("store", "both after a crash", tags("live", "try"))
	read := func(ctx context.Context, o *api.QueryOptions) (*api.Deployment, *api.QueryMeta, error) {
		return m.api.Jobs().Deployment(ctx, "store", o)
	}
	d := await(m, "the canary to be healthy", read, func(d *api.Deployment) bool {
		return d != nil && d.JobVersion == 1 && d.TaskGroups["g"].HealthyAllocs == 1
	})
	_, _, err := m.api.Deployments().Promote(t.Context(), d.ID, nil, nil)
	must(t, err)
	m.instances("store", "the promoted one alone", tags("live"))
	m.stopJob("store")
}

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/e2e/hostile"
	"berth/internal/testkit/dockerd"
)

const hostileContainer = `
job %q {
  type = "batch"
  group "attempts" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    task "t" {
      driver = "docker"
      user   = %q
      config {
        image   = %q
        command = "/rig/program"
        args    = ["attempts", %q]
      }
      volume_mount {
        volume      = "rig"
        destination = "/rig"
        read_only   = true
      }
      resources {
        cpu    = 50
        memory = 256
        pids   = 96
      }
    }
  }
}`

// dockerAnswers are what Docker answers otherwise than exec does, by how it begins.
var dockerAnswers = map[string][]string{
	// The daemon's own filter of system calls lets these through, to a kernel that looks at their arguments.
	"system call: open_tree_attr":                  {"ENOSYS"},
	"system call: lsm_set_self_attr":               {"ENOSYS"},
	"system call: io_uring_setup":                  {"EFAULT"},
	"system call: io_uring_enter":                  {"EBADF"},
	"system call: io_uring_register":               {"EINVAL", "EBADF"},
	"system call: ptrace":                          {"ESRCH"},
	"system call: modify_ldt":                      {hostile.Allowed},
	"system call: socket vsock":                    {hostile.Allowed},
	"system call: socket vsock with an upper half": {hostile.Allowed},
	"system call: socket netfilter":                {hostile.Allowed},
	"system call: socket alg":                      {"EAFNOSUPPORT"},
	// The first process of a container is the task's own, and so are its files.
	"file: what the task's first process has open": {hostile.Allowed},
	"file: read /proc/1/environ":                   {hostile.Allowed},
	"file: read /proc/1/mem":                       {"EIO"},
	"file: read /proc/1/map_files":                 {hostile.Allowed},
	"file: write /etc/passwd":                      {hostile.Allowed},
	"file: a hard link to a program of the node":   {"ENOENT"},
	"device: make the memory":                      {"EEXIST"},
	"device: make the log of the kernel":           {"EEXIST"},
	"device: make the disk of the data_dir":        {"made; open: EPERM"},
	// Images have such programs, and use them; its capabilities are those of a container.
	"process: a set-user-id program of root": {"0"},
	// The daemon hides less of /proc.
	"file: read /proc/interrupts":                      {hostile.Allowed},
	"file: read /proc/kallsyms":                        {hostile.Allowed},
	"file: read /proc/key-users":                       {hostile.Allowed},
	"file: read /proc/kpagecgroup":                     {"EINVAL"},
	"file: read /proc/kpagecount":                      {"EINVAL"},
	"file: read /proc/kpageflags":                      {"EINVAL"},
	"control groups: see the group's path on the node": {"/berth-"},
	// It has a network of its own, in which nobody is.
	"network: the agent's port beside the agent":        {hostile.Allowed},
	"network: run a job by the agent's port":            {"ECONNREFUSED"},
	"network: read of the agent's port":                 {"ECONNREFUSED"},
	"network: a socket without a file of somebody else": {"ECONNREFUSED"},
	// A container's layer is the daemon's, and as large as that lets it be; terminals are its own.
	"excess: terminals":            {hostile.Allowed},
	"excess: fill the task's root": {hostile.Allowed},
	"excess: fill /run":            {"ENOENT"},
}

// TestAHostileContainer: given a task in a container that tries everything to leave it or to take more than its share,
// then each attempt has the answer that a task of exec has, but for those that Docker answers otherwise.
func TestAHostileContainer(t *testing.T) {
	daemon := dockerd.New(t)
	m := prepare(t, false)
	m.service = true
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), fmt.Sprintf(
		"plugin \"docker\" {\n config {\n  endpoint = \"unix://%s\"\n }\n}", daemon.Socket()))
	m.start()
	m.buildHostile()
	m.run(sleeper("victim"))
	site := m.site(m.running("victim", 1)[0].ID)
	text, err := json.Marshal(site)
	must(t, err)
	for _, user := range []string{"0", "65534"} {
		job := "hostile-" + user
		m.run(fmt.Sprintf(hostileContainer, job, user, dockerd.Image, text))
		answers := m.tried(job)
		for _, a := range hostile.Within(site) {
			got, made := answers[a.Name]
			otherwise := slices.ContainsFunc(dockerAnswers[a.Name], func(want string) bool {
				return strings.HasPrefix(got, want)
			})
			if !made || !otherwise && !slices.Contains(a.Want, got) {
				t.Errorf("%s, %s: %q, want %q", user, a.Name, got, a.Want)
			}
		}
		m.mustCLI("job", "stop", "-purge", job)
	}
	m.alive("the attacks", site.PID, m.cmd.Process.Pid)
	m.stopJob("victim")
}

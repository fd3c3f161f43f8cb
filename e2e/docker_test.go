package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/internal/testkit/dockerd"
)

// dockerStore is the bundled plugin in a container, with the programs of the node.
const dockerStore = `
job "store" {
  type = "system"
  group "g" {
    task "plugin" {
      driver = "docker"
      config {
        image   = %q
        command = "/rig/berth"
        args    = ["plugin", "local-csi", "--data-dir", "/rig/images", "--node-id", "${node.unique.id}"]
        volumes = ["/usr:/usr:ro", "/usr/lib:/lib:ro", "/lib64:/lib64:ro", "%s:/rig"]
      }
      env {
        PATH = "/usr/sbin:/usr/bin:/bin"
      }
      csi_plugin {
        id                     = "store"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
      }
      resources {
        cpu    = 50
        memory = 256
      }
    }
  }
}`

const dockerWriter = `
job "db" {
  group "g" {
    update {
      min_healthy_time = "0s"
    }
    network {
      mode = "bridge"
      port "web" {
        to = 8080
      }
    }
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "docker"
      config {
        image   = %q
        command = "sh"
        args    = ["-c", "echo run >>/data/runs; echo $NOMAD_ALLOC_PORT_web; httpd -f -p 8080 -h /data"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}`

// TestDatabaseAndPluginInContainers: given a node with Docker whose storage plugin is a job in a container, when a
// job in a container writes to a volume of that plugin, and the agent, the daemon, and both are killed, then both
// containers go on as the same processes without a restart, the job is reached by its port, and after its stop
// another run finds what it wrote; and in the end no container is left.
func TestDatabaseAndPluginInContainers(t *testing.T) {
	daemon := dockerd.New(t)
	m := prepare(t, false)
	m.service = true
	m.lend(m.program(), "berth")
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), fmt.Sprintf("plugin \"docker\" {\n config {\n"+
		"  endpoint = \"unix://%s\"\n  allow_privileged = true\n  volumes { enabled = true }\n }\n}", daemon.Socket()))
	m.start()
	m.eventually("the driver to be healthy", func() bool {
		nodes, _, err := m.api.Nodes().List(t.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Drivers["docker"] != nil && nodes[0].Drivers["docker"].Healthy
	})
	m.runsTo(fmt.Sprintf(dockerStore, dockerd.Image, m.rig), 0)
	m.awaitPlugin("store")
	file := filepath.Join(m.root, "data.hcl")
	must(t, os.WriteFile(file, []byte("id = \"data\"\nname = \"data\"\ntype = \"csi\"\nplugin_id = \"store\"\n"+
		"capacity_min = \"64MiB\"\ncapability {\n access_mode = \"single-node-writer\"\n"+
		" attachment_mode = \"file-system\"\n}\n"), 0o644))
	m.mustCLI("volume", "create", file)
	m.runsTo(fmt.Sprintf(dockerWriter, dockerd.Image), 0)
	alloc := func(job string) *api.AllocationListStub {
		var found *api.AllocationListStub
		m.eventually(job+" to run", func() bool {
			all, _, err := m.api.Jobs().Allocations(t.Context(), job, false, nil)
			if err != nil || len(all) != 1 || all[0].ClientStatus != api.AllocClientStatusRunning {
				return false
			}
			found = all[0]
			return true
		})
		return found
	}
	db, store := alloc("db"), alloc("store")
	pids := func() [2]int {
		return [2]int{daemon.PIDOf("t-" + db.ID), daemon.PIDOf("plugin-" + store.ID)}
	}
	before := pids()
	written := func(times int) {
		t.Helper()
		m.eventually("the file to be served", func() bool {
			out, _ := m.cli("alloc", "exec", "-job", "db", "wget", "-qO-", "http://127.0.0.1:8080/runs")
			return out == strings.Repeat("run\n", times)
		})
	}
	written(1)
	m.kill()
	m.start()
	written(1)
	daemon.Signal(unix.SIGKILL)
	m.eventually("the daemon to be missed", func() bool {
		nodes, _, err := m.api.Nodes().List(t.Context(), nil)
		return err == nil && len(nodes) == 1 && !nodes[0].Drivers["docker"].Healthy
	})
	daemon.Start()
	written(1)
	m.kill()
	daemon.Signal(unix.SIGKILL)
	daemon.Start()
	m.start()
	written(1)
	if after := pids(); after != before {
		t.Errorf("the processes are %v, and were %v", after, before)
	}
	for _, a := range []*api.AllocationListStub{db, store} {
		mustSay(t, "the status", m.mustCLI("alloc", "status", a.ID), "Total Restarts = 0")
	}
	m.mustCLI("job", "stop", "db")
	m.runsTo(strings.Replace(fmt.Sprintf(dockerWriter, dockerd.Image), `"0s"`, `"1ms"`, 1), 0)
	written(2)
	m.mustCLI("job", "stop", "-purge", "db")
	m.mustCLI("volume", "delete", "data")
	m.mustCLI("job", "stop", "-purge", "store")
	m.eventually("the containers to be gone", func() bool { return len(daemon.Containers()) == 0 })
}

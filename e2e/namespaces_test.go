package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// TestTheGuideOfNamespacesIsPlayed: given the files that docs/guides/namespaces.md shows, when its commands are run,
// then each does what it is for, and nothing of the team is left.
func TestTheGuideOfNamespacesIsPlayed(t *testing.T) {
	m := newMachine(t, false)
	m.filesOf("guides/namespaces.md")
	m.guide("guides/namespaces.md", "A team gets a namespace")
	if _, _, err := m.api.Cluster().Namespace(t.Context(), "shop", nil); !api.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
}

// TestANodeIsPutIntoAPool: given an agent whose node is in the default pool, when its configuration names another one
// and it starts again, then that pool is there with the node, the bundled plugin and a job of the pool run in it, and
// one of the default one waits.
func TestANodeIsPutIntoAPool(t *testing.T) {
	m := newMachine(t, true)
	config := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(config)
	must(t, err)
	const begin = "client {\n"
	if !strings.Contains(string(text), begin) {
		t.Fatalf("the configuration is %s", text)
	}
	must(t, m.stop())
	changed := strings.Replace(string(text), begin, begin+"node_pool = \"disks\"\n", 1)
	must(t, os.WriteFile(config, []byte(changed), 0o600))
	m.start()
	m.eventually("the node in its pool", func() bool {
		nodes, _, err := m.api.Cluster().NodePoolNodes(t.Context(), "disks", nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	m.eventually("the plugin in the pool", func() bool {
		j, _, err := m.api.Jobs().Get(t.Context(), "local-csi", &api.QueryOptions{Namespace: "berth"})
		return err == nil && *j.NodePool == "disks" && *j.Status == "running"
	})
	m.awaitPlugin("local-csi")
	job := func(id, pool string) string {
		return "job \"" + id + "\" {\n type = \"batch\"\n" + pool + ` group "g" {
    ephemeral_disk {
      size = 30
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/true"
      }
      resources {
        memory = 16
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}`
	}
	m.run(job("here", "node_pool = \"disks\"\n"))
	m.eventually("the job of the pool to end", func() bool {
		j, _, err := m.api.Jobs().Get(t.Context(), "here", nil)
		return err == nil && *j.Status == "dead"
	})
	file := filepath.Join(m.root, "there.nomad.hcl")
	must(t, os.WriteFile(file, []byte(job("there", "")), 0o600))
	if out, code := m.cli("job", "run", "-detach", file); code != 0 ||
		!strings.Contains(out, `no node is in the pool "default"`) {
		t.Errorf("a job of a pool without nodes: %d: %s", code, out)
	}
	for _, c := range [][]string{{"namespace", "delete", "default"}, {"node", "pool", "delete", "disks"}} {
		if out, code := m.cli(c...); code == 0 {
			t.Errorf("%v: %s", c, out)
		}
	}
	m.stopJob("there")
}

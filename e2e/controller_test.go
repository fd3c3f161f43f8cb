package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"berth/api"
	"berth/internal/conformance/csi/csitest"
)

// controller is a job whose task, of exec and of nobody, serves a storage plugin that is a controller alone.
func (m *machine) controller(id string) string {
	m.t.Helper()
	m.lend(csitest.Binary(m.t), "csi-proxy")
	cfg, err := json.Marshal(csitest.Fake{Dir: "/local/backend"})
	must(m.t, err)
	return fmt.Sprintf(`
job %q {
  group "plugin" {
    volume "rig" {
      type      = "host"
      source    = "rig"
      read_only = true
    }
    task "plugin" {
      driver = "exec"
      config {
        command = "/rig/csi-proxy"
        args    = ["-serve-fake", %q]
      }
      csi_plugin {
        id        = %q
        type      = "controller"
        mount_dir = "/csi"
      }
      volume_mount {
        volume      = "rig"
        destination = "/rig"
        read_only   = true
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`, id, cfg, id)
}

// TestAControllerRunsAsNobody: given a storage plugin that is nothing but a controller, when its task of exec names no
// user, on an agent with user namespaces or without, then it is nobody, its socket is found, the plugin becomes
// healthy, and volumes are made and deleted by it, over a kill of the agent too.
func TestAControllerRunsAsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		more string
		uid  uint32
	}{
		"the node's users":   {"", 65534},
		"users of their own": {ownUsers, 3000000 + 65534},
	} {
		t.Run(name, func(t *testing.T) {
			m := prepare(t, false)
			m.append(c.more)
			m.start()
			m.run(m.controller("remote"))
			healthy := func() {
				t.Helper()
				await(m, "the controller to be healthy",
					func(ctx context.Context, o *api.QueryOptions) (*api.CSIPlugin, *api.QueryMeta, error) {
						return m.api.Plugins().Get(ctx, "remote", o)
					}, func(p *api.CSIPlugin) bool { return p.ControllersHealthy == 1 && p.NodesExpected == 0 })
			}
			healthy()
			a := m.running("remote", 1)[0]
			for _, p := range processes(func(x process) bool { return x.env["NOMAD_ALLOC_ID"] == a.ID }) {
				var st syscall.Stat_t
				must(t, syscall.Stat("/proc/"+strconv.Itoa(p.pid), &st))
				if st.Uid != c.uid {
					t.Errorf("%v is %d, want %d", p.args, st.Uid, c.uid)
				}
			}
			m.kill()
			m.start()
			healthy()
			spec := filepath.Join(m.root, "v.hcl")
			must(t, os.WriteFile(spec, []byte(`
id = "data"
name = "data"
type = "csi"
plugin_id = "remote"
capacity_min = "32MiB"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`), 0o600))
			m.mustCLI("volume", "create", spec)
			m.mustCLI("volume", "delete", "data")
			m.stopJob("remote")
		})
	}
}

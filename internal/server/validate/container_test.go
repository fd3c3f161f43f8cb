package validate

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver/docker/spec"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/driveroptions"
	"berth/internal/testkit/localstate"
)

// docked puts a ready node with Docker there, with more attributes of the driver.
func docked(t *testing.T, c *localstate.Cluster, id ids.Node, more map[string]string) {
	t.Helper()
	attributes := map[string]string{"driver.docker.allow_caps": "chown,kill", "driver.docker.runtimes": "runc"}
	for name, value := range more {
		attributes["driver.docker."+name] = value
	}
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Name: string(id), Status: node.StatusReady,
		Drivers: map[string]*node.Driver{"docker": {Detected: true, Healthy: true, Attributes: attributes}},
	}})
	c.Must(t, &driveroptions.Put{Node: id, Drivers: map[string]taskconfig.Schema{"docker": spec.Schema}})
}

// TestWhatNoAgentAllowsAContainerIsRefused: given ready nodes with Docker, when a container asks for what none of their
// agents allows, then the job is refused with the option and the setting that allows it; beside one that allows it, it
// is taken.
func TestWhatNoAgentAllowsAContainerIsRefused(t *testing.T) {
	privileged, volumes := map[string]string{"privileged.enabled": "1"}, map[string]string{"volumes.enabled": "1"}
	for _, k := range []struct {
		block, field, setting string
		allows                map[string]string
	}{
		{`"privileged": true`, "config.privileged", "allow_privileged = true", privileged},
		{`"privileged": "true"`, "config.privileged", "allow_privileged = true", privileged},
		{`"pid_mode": "host"`, "config.pid_mode", "allow_privileged = true", privileged},
		{`"ipc_mode": "host"`, "config.ipc_mode", "allow_privileged = true", privileged},
		{`"network_mode": "container:x"`, "config.network_mode", "allow_privileged = true", privileged},
		{`"security_opt": ["seccomp=unconfined"]`, "config.security_opt", "allow_privileged = true", privileged},
		{`"devices": [{"host_path": "/dev/kvm"}]`, "config.devices", "allow_privileged = true", privileged},
		{`"logging": {"type": "syslog"}`, "config.logging", "allow_privileged = true", privileged},
		{`"volumes": ["/etc:/x"]`, `config.volumes "/etc"`, "volumes { enabled = true }", volumes},
		{`"mount": [{"type": "bind", "source": "/", "target": "/x"}]`, `config.mount "/"`, "volumes { enabled = true }",
			volumes},
		{`"mount": [{"type": "volume", "source": "v", "target": "/x"}]`, "config.mount", "volumes { enabled = true }",
			volumes},
		{`"runtime": "other"`, "config.runtime", "allow_runtimes", map[string]string{"runtimes": "runc,other"}},
		{`"cap_add": ["sys_admin"]`, "config.cap_add", "allow_caps", map[string]string{"allow_caps": "sys_admin"}},
	} {
		c := localstate.New(t)
		submit := func() error {
			config := map[string]any{}
			if err := json.Unmarshal([]byte(`{"image": "x", `+k.block+`}`), &config); err != nil {
				t.Fatal(err)
			}
			return inContainer(c, job.Task{Config: config})
		}
		docked(t, c, "a", nil)
		if err := submit(); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), k.field+": ") ||
			!strings.Contains(err.Error(), k.setting+` in the config of their plugin "docker" block`) {
			t.Errorf("%s: %v", k.block, err)
		}
		docked(t, c, "b", k.allows)
		if err := submit(); err != nil {
			t.Errorf("%s, beside a node that allows it: %v", k.block, err)
		}
	}
}

func inContainer(c *localstate.Cluster, task job.Task) error {
	task.Name, task.Driver = "t", "docker"
	_, err := Job(c.Store.Snapshot(), &job.Job{
		Namespace:  ids.DefaultNamespace,
		ID:         "j",
		TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{&task}}},
	})
	return err
}

// TestWhatOnlyANodeCanJudgeOfAContainerIsTaken: given what every container may have, and texts whose values are put in
// their places later, then the job is taken; and a storage plugin asks for one thing alone.
func TestWhatOnlyANodeCanJudgeOfAContainerIsTaken(t *testing.T) {
	c := localstate.New(t)
	docked(t, c, "a", nil)
	config := map[string]any{
		"image":    "${meta.image}",
		"pid_mode": "${meta.mode}",
		"runtime":  "${meta.runtime}",
		"ipc_mode": "none",
		"volumes":  []any{"local/x:/x", "${NOMAD_ALLOC_DIR}/data:/y", "../alloc:/z:ro,rslave"},
		"mount":    []any{map[string]any{"type": "tmpfs", "target": "/t"}},
		"logging":  map[string]any{"type": "journald"},
	}
	if err := inContainer(c, job.Task{Config: config}); err != nil {
		t.Error(err)
	}
	plugin := job.Task{
		Config:          map[string]any{"image": "x", "privileged": true},
		CSIPluginConfig: &job.CSIPluginConfig{ID: "p", Type: "node"},
	}
	err := inContainer(c, plugin)
	if len(Each(err)) != 1 || !strings.Contains(err.Error(), "csi_plugin") ||
		!strings.Contains(err.Error(), "allow_privileged = true in the config") {
		t.Errorf("a storage plugin: %v", err)
	}
	docked(t, c, "b", map[string]string{"allow_csi_node": "1"})
	if err := inContainer(c, plugin); err != nil {
		t.Errorf("a storage plugin where it is allowed: %v", err)
	}
}

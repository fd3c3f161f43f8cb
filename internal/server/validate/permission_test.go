package validate

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// permits puts a ready node there whose driver "d" says so of what its agent allows.
func permits(t *testing.T, c *localstate.Cluster, id ids.Node, attributes map[string]string) {
	t.Helper()
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{
		ID:      id,
		Name:    string(id),
		Status:  node.StatusReady,
		Drivers: map[string]*node.Driver{"d": {Detected: true, Healthy: true, Attributes: attributes}},
	}})
}

func asked(c *localstate.Cluster, task job.Task) error {
	task.Name, task.Driver = "t", "d"
	_, err := Job(c.Store.Snapshot(), &job.Job{
		Namespace:  ids.DefaultNamespace,
		ID:         "j",
		TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{&task}}},
	})
	return err
}

// Given ready nodes that say what their agents allow, when a task asks for what none of them does, then it is refused,
// with the task, what asks for it, the nodes, and the option by which it is allowed; as soon as one node allows it, or
// does not say, it is taken.
func TestWhatNoReadyNodeAllowsIsRefused(t *testing.T) {
	const place = `register job "j": group "g": task "t": `
	const nobody = ` is allowed by no ready node with the driver "d" (a, b)`
	const block = ` in the config of their plugin "d" block)`
	with := func(name string, v any) job.Task { return job.Task{Config: map[string]any{name: v}} }
	for _, k := range []struct {
		task          job.Task
		says          string
		option, value string // by which one node allows it
	}{
		{with("pid_mode", "host"), `config.pid_mode: "host"` + nobody + ` (leave it out; who runs the agents ` +
			`allows it by allow_host_pid = true` + block, node.PermitHostPID, "1"},
		{with("ipc_mode", "host"), `config.ipc_mode: "host"` + nobody + ` (leave it out; who runs the agents ` +
			`allows it by allow_host_ipc = true` + block, node.PermitHostIPC, "1"},
		{with("cap_add", []any{"kill", "CAP_NET_ADMIN"}), `config.cap_add: capability "CAP_NET_ADMIN"` + nobody +
			` (they allow chown, kill; who runs the agents allows more by allow_caps` + block,
			node.PermitCaps, "net_admin"},
		{with("cap_add", []any{"net_raw"}), `config.cap_add: capability "net_raw"` + nobody, node.PermitCaps, "all"},
		{job.Task{CSIPluginConfig: &job.CSIPluginConfig{ID: "p", Type: "monolith"}}, `csi_plugin: type "monolith"` +
			nobody + ` (who runs the agents allows it by allow_csi_node = true` + block, node.PermitCSINode, "1"},
	} {
		c := localstate.New(t)
		if err := asked(c, k.task); err != nil {
			t.Errorf("%s: with no node: %v", k.says, err)
		}
		caps := node.Permission("d", node.PermitCaps)
		permits(t, c, "a", map[string]string{caps: "chown,kill"})
		permits(t, c, "b", map[string]string{caps: "kill"})
		err := asked(c, k.task)
		if !fault.Has(err, fault.Invalid) || !strings.HasPrefix(err.Error(), place+k.says) {
			t.Errorf("%v, want %s%s", err, place, k.says)
		}
		allows := map[string]string{caps: "kill"}
		allows[node.Permission("d", k.option)] = k.value
		permits(t, c, "c", allows)
		if err := asked(c, k.task); err != nil {
			t.Errorf("%s: beside a node that allows it: %v", k.says, err)
		}
		c.Must(t, &fsm.NodeEligibility{Node: "c", Eligibility: node.Ineligible})
		if err := asked(c, k.task); err == nil {
			t.Errorf("%s: the node that allows it takes nothing, and it is taken", k.says)
		}
		permits(t, c, "earlier", nil)
		if err := asked(c, k.task); err != nil {
			t.Errorf("%s: beside a node that does not say: %v", k.says, err)
		}
	}
}

// What a task may have everywhere, what only a node can judge, and what a storage plugin has with its node, is taken.
func TestWhatNeedsNoPermissionIsTaken(t *testing.T) {
	c := localstate.New(t)
	permits(t, c, "a", map[string]string{node.Permission("d", node.PermitCaps): "kill",
		node.Permission("d", node.PermitCSINode): "1"})
	config := map[string]any{
		"pid_mode": "private",
		"ipc_mode": "${meta.mode}",
		"cap_add":  []any{"all", "${meta.cap}", "KILL"},
	}
	if err := asked(c, job.Task{Config: config}); err != nil {
		t.Error(err)
	}
	plugin := job.Task{
		Config:          map[string]any{"pid_mode": "host", "cap_add": []any{"sys_admin"}},
		CSIPluginConfig: &job.CSIPluginConfig{ID: "p", Type: "node"},
	}
	if err := asked(c, plugin); err != nil {
		t.Errorf("a storage plugin: %v", err)
	}
	plugin.CSIPluginConfig.Type = job.PluginController
	if err := asked(c, plugin); len(Each(err)) != 2 {
		t.Errorf("a controller alone, which is a task as others: %v", err)
	}
}

// Given ready nodes that say which numbers of users they deny, then a user who is such a number is refused.
func TestAUserByNumberWhomEveryReadyNodeDeniesIsRefused(t *testing.T) {
	c := localstate.New(t)
	permits(t, c, "a", map[string]string{node.DeniedUsers("d"): "root", node.DeniedUIDs("d"): "0,100-199"})
	permits(t, c, "b", map[string]string{node.DeniedUsers("d"): "root", node.DeniedUIDs("d"): "0,150"})
	for user, denied := range map[string]bool{"0": true, "0:7": true, "root": true, "150": true, "100": false,
		"7": false, "7:0": false, "00150": true, "4294967296": false, "-1": false} {
		err := asked(c, job.Task{User: user})
		if denied != fault.Has(err, fault.Invalid) || denied && !strings.Contains(err.Error(), `user "`+user+`"`) {
			t.Errorf("user %q: %v", user, err)
		}
	}
	permits(t, c, "c", map[string]string{node.DeniedUsers("d"): "root"})
	if err := asked(c, job.Task{User: "0"}); err != nil {
		t.Errorf("beside a node that does not say: %v", err)
	}
}

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
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/driveroptions"
	"berth/internal/testkit/localstate"
)

var (
	today = taskconfig.Schema{
		"command": {Kind: taskconfig.Text, Required: true},
		"args":    {Kind: taskconfig.Texts},
		"mount": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
			"target": {Kind: taskconfig.Text, Required: true},
		}},
	}
	tomorrow = taskconfig.Schema{
		"command": {Kind: taskconfig.Texts, Required: true},
		"pids":    {Kind: taskconfig.Number},
	}
)

// registered makes a ready node whose driver "d" takes options, or says their names alone.
func registered(t *testing.T, c *localstate.Cluster, id ids.Node, options taskconfig.Schema, names string) {
	t.Helper()
	d := &node.Driver{Detected: true, Healthy: true, Attributes: map[string]string{}}
	if names != "" {
		d.Attributes[node.DriverOptions("d")] = names
	}
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Status: node.StatusReady,
		Drivers: map[string]*node.Driver{"d": d}}})
	if options != nil {
		c.Must(t, &driveroptions.Put{Node: id, Drivers: map[string]taskconfig.Schema{"d": options}})
	}
}

func submit(t *testing.T, c *localstate.Cluster, config string) ([]string, string) {
	t.Helper()
	task := &job.Task{Name: "t", Driver: "d"}
	if err := json.Unmarshal([]byte("{"+config+"}"), &task.Config); err != nil {
		t.Fatal(err)
	}
	warnings, err := Job(c.Store.Snapshot(), &job.Job{Namespace: ids.DefaultNamespace, ID: "j",
		TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{task}}}})
	if err == nil {
		return warnings, ""
	}
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("%s: kind %v", config, fault.KindOf(err))
	}
	return warnings, err.Error()
}

// Given ready nodes that say what their drivers take, when a job asks for something else, then it is refused with the
// place, what it is, what is wanted and an example; a value that comes later is not judged.
func TestAConfigThatNoReadyNodeTakesIsRefused(t *testing.T) {
	c := localstate.New(t)
	if warnings, refusal := submit(t, c, `"command": ["a"]`); refusal != "" || len(warnings) != 1 ||
		!strings.Contains(warnings[0], `no ready node has the driver "d" of task "t"`) {
		t.Errorf("with no node: %q, warned %q", refusal, warnings)
	}
	registered(t, c, "a", today, "args,command,mount")
	const place = `register job "j": group "g": task "t": config`
	for _, k := range []struct{ config, refusal string }{
		{`"command": "a", "args": ["b"], "mount": [{"target": "c"}]`, ""},
		{`"command": "${meta.program}"`, ""},
		{`"command": ["a"]`, `.command: the driver "d" takes a text here, and this is a list (write command = "…")`},
		{`"command": "a", "args": "x"`,
			`.args: the driver "d" takes a list of texts here, and this is a text (write args = ["…", "…"])`},
		{`"command": "a", "args": [{"x": 1}]`,
			`.args: the driver "d" takes a list of texts here, and this is a block (`},
		{`"command": "a", "mount": [{"source": "x"}]`,
			`.mount[0].source: the driver "d" has no option "source" (it knows target)`},
		{`"command": "a", "no_pivot_root": true`, `.no_pivot_root: the driver "d" has no option "no_pivot_root": a ` +
			`task that only changed its root could leave it again, so every task gets one of its own (leave it out)`},
		{`"args": []`, `.command: the driver "d" requires it, and it is not set (write command = "…")`},
	} {
		if _, got := submit(t, c, k.config); k.refusal == "" && got != "" || k.refusal != "" &&
			!strings.HasPrefix(got, place+k.refusal) {
			t.Errorf("%s: %q, want %q", k.config, got, k.refusal)
		}
	}
}

// Given ready nodes that say as whom no task runs, when a task names such a user, then it is refused while they all
// deny it; a storage plugin is not, nor a user who is a number, since only nodes know whose it is.
func TestAUserWhomEveryReadyNodeDeniesIsRefused(t *testing.T) {
	c := localstate.New(t)
	ready := func(id ids.Node, denied string) {
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Status: node.StatusReady, Drivers: map[string]*node.Driver{
			"d": {Detected: true, Healthy: true, Attributes: map[string]string{node.DeniedUsers("d"): denied}},
		}}})
	}
	refusal := func(task job.Task) error {
		task.Name, task.Driver = "t", "d"
		_, err := Job(c.Store.Snapshot(), &job.Job{Namespace: ids.DefaultNamespace, ID: "j",
			TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{&task}}}})
		return err
	}
	if err := refusal(job.Task{User: "root"}); err != nil {
		t.Errorf("with no node: %v", err)
	}
	ready("a", "root,bin")
	ready("b", "root")
	for user, denied := range map[string]bool{"root": true, "root:5": true, "bin": false, "0": false, "": false} {
		err := refusal(job.Task{User: user})
		says := `register job "j": group "g": task "t": user "` + user + `": no ready node with the driver "d" lets ` +
			`a task run as it (name another user`
		if denied != fault.Has(err, fault.Invalid) || denied && !strings.Contains(err.Error(), says) {
			t.Errorf("user %q: %v", user, err)
		}
	}
	if err := refusal(job.Task{User: "root", CSIPluginConfig: &job.CSIPluginConfig{}}); err != nil {
		t.Errorf("a storage plugin: %v", err)
	}
	alone := job.Task{User: "root", CSIPluginConfig: &job.CSIPluginConfig{Type: job.PluginController}}
	if err := refusal(alone); !fault.Has(err, fault.Invalid) {
		t.Errorf("a controller alone, which is a task as others: %v", err)
	}
	ready("c", "")
	if err := refusal(job.Task{User: "root"}); err != nil {
		t.Errorf("beside a node that lets tasks be root: %v", err)
	}
}

// Given ready nodes with two versions of a driver, then what either takes is taken, and what neither takes is refused
// by both; a node that says the names of its options alone judges by them, one that says nothing takes everything, and
// one that is not ready is not asked.
func TestWhatOneReadyNodeTakesIsTaken(t *testing.T) {
	c := localstate.New(t)
	registered(t, c, "a", today, "args,command,mount")
	registered(t, c, "b", today, "args,command,mount")
	registered(t, c, "c", tomorrow, "command,pids")
	const old, next = `"command": "a", "args": ["b"]`, `"command": ["a"], "pids": 1`
	for _, config := range []string{old, next} {
		if _, refusal := submit(t, c, config); refusal != "" {
			t.Errorf("%s: %s", config, refusal)
		}
	}
	const mixed = `"command": "a", "args": ["b"], "pids": 1`
	_, refusal := submit(t, c, mixed)
	const both = `config.args: the driver "d" has no option "args" (it knows command, pids); config.command: the ` +
		`driver "d" takes a list of texts here, and this is a text (write command = ["…", "…"]); and on other nodes: ` +
		`config.pids: the driver "d" has no option "pids"`
	if strings.Count(refusal, both) != 1 {
		t.Errorf("%s: %q, want once %q", mixed, refusal, both)
	}
	c.Must(t, &fsm.NodeEligibility{Node: "c", Eligibility: node.Ineligible})
	if _, refusal := submit(t, c, next); refusal == "" {
		t.Errorf("%s is taken, although the only node that takes it is not ready", next)
	}
	registered(t, c, "earlier", nil, "command,pids")
	if _, refusal := submit(t, c, next); refusal != "" {
		t.Errorf("%s: a node that knows these names: %s", next, refusal)
	}
	if _, refusal := submit(t, c, mixed); refusal == "" {
		t.Errorf("%s is taken, of which no node knows all names", mixed)
	}
	registered(t, c, "silent", nil, "")
	if _, refusal := submit(t, c, mixed); refusal != "" {
		t.Errorf("%s: beside a node that does not say: %s", mixed, refusal)
	}
}

package validate

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/testkit/localstate"
)

// Given ready nodes that say what their driver takes, when a job asks for something else, then it is refused before
// anything is placed, with the task, the word and those that there are; where a node does not say, it is not judged.
func TestWhatCannotRunIsRefusedAsFarAsReadyNodesKnow(t *testing.T) {
	healthy := func() map[string]*node.Driver {
		return map[string]*node.Driver{"exec": {Detected: true, Healthy: true},
			"raw_exec": {Detected: true, HealthDescription: "the agent is not root"}}
	}
	c := localstate.New(t)
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{
		ID:         "n",
		Name:       "one",
		NodePool:   "default",
		Status:     node.StatusReady,
		Drivers:    healthy(),
		Attributes: map[string]string{"driver.exec.options": "args,command", "os.signals": "SIGINT,SIGTERM"},
	}})
	for _, k := range []struct {
		name         string
		task         job.Task
		refusal, saw string // saw: a warning
	}{
		{"right", job.Task{
			Driver:     "exec",
			Config:     map[string]any{"command": "x"},
			KillSignal: "sigint",
			Templates:  []*job.Template{{EmbeddedTmpl: `{{ env "A" }}`}},
		}, "", ""},
		{"option", job.Task{Driver: "exec", Config: map[string]any{"commnd": "x"}},
			`task "t": config.commnd: the driver "exec" has no option "commnd" (it knows args, command)`, ""},
		{"signal", job.Task{Driver: "exec", KillSignal: "SIGFOO"},
			`there is no signal "SIGFOO" (there are SIGINT, SIGTERM)`, ""},
		{"template's signal",
			job.Task{Driver: "exec", Templates: []*job.Template{{ChangeSignal: "SIGBAR"}}}, `no signal "SIGBAR"`, ""},
		{"function", job.Task{Driver: "exec", Templates: []*job.Template{{EmbeddedTmpl: `{{ secret "a" }}`}}},
			`template 1 (""): at 1:3 the function "secret" is not built yet`, ""},
		{"a driver that is not well", job.Task{Driver: "raw_exec"}, "",
			`"raw_exec" of task "t" in group "g" is healthy on no node, on node one because: the agent is not root; the job`},
		{"a driver of others", job.Task{Driver: "docker"}, "",
			`there is no driver "docker" for task "t" in group "g", so that the job waits for ever: unpack its image on a `},
		{"restarts", job.Task{Driver: "exec", RestartPolicy: &job.RestartPolicy{
			Attempts: 9, Interval: time.Minute, Delay: time.Millisecond,
		}}, "", `task "t" of group "g": restarts after the first 5 within 1m0s wait 1s each, not 1ms`},
		{"environment", job.Task{Driver: "exec", Env: map[string]string{
			"A": strings.Repeat("x", 70_000), "B": "${A}${NOMAD_TASK_DIR}", "C": "${A}${env[\"B\"]}",
		}}, `set variable "C": with what ${…} stands for it has more than 131072 bytes`, ""},
		{"another driver", job.Task{Driver: "execc", Config: map[string]any{"commnd": "x"}}, "",
			`has the driver "execc" of task "t" in group "g"; the job waits until one has (ready nodes have exec)`},
	} {
		k.task.Name = "t"
		j := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", NodePool: "default", TaskGroups: []*job.TaskGroup{
			{Name: "g", Tasks: []*job.Task{&k.task}},
		}}
		warnings, err := Job(c.Store.Snapshot(), j)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if k.refusal == "" && got != "" || !strings.Contains(got, k.refusal) {
			t.Errorf("%s: %q, want %q", k.name, got, k.refusal)
		}
		if got := strings.Join(warnings, "\n"); k.saw == "" && got != "" || !strings.Contains(got, k.saw) {
			t.Errorf("%s: warned %q, want %q", k.name, got, k.saw)
		}
	}
	bad := &job.Job{Namespace: "prod", ID: "j", TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{{
		Name:       "t",
		Driver:     "exec",
		KillSignal: "SIGFOO",
		Config:     map[string]any{"commnd": "x"},
		Templates:  []*job.Template{{EmbeddedTmpl: `{{ secret "a" }}{{ nodes }}`}},
	}}}}}
	_, err := Job(c.Store.Snapshot(), bad)
	if all := Each(err); len(all) != 5 || !fault.Has(err, fault.NotFound) {
		t.Errorf("one round names %d of 5: %v", len(all), err)
	}
	pool := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", NodePool: "gpu"}
	if w, err := Job(c.Store.Snapshot(), pool); len(w) > 0 || !fault.Has(err, fault.NotFound) ||
		!strings.Contains(err.Error(), `node pool "gpu" does not exist`) {
		t.Errorf("a pool that is not there: %q, %v", w, err)
	}
	c.Must(t, &partitioning.NodePoolPut{Pool: &partition.NodePool{Name: "gpu"}})
	if w, err := Job(c.Store.Snapshot(), pool); err != nil || len(w) != 1 ||
		!strings.Contains(w[0], `no node is in the pool "gpu" of the job`) ||
		!strings.Contains(w[0], "in default; write one") || !strings.Contains(w[0], "client block") {
		t.Errorf("a pool without nodes: %q, %v", w, err)
	}
	c.Must(t, &partitioning.NamespacePut{Namespace: &partition.Namespace{
		Name:         "bound",
		Capabilities: &partition.Capabilities{DisabledDrivers: []string{"exec"}},
	}})
	bound := &job.Job{Namespace: "bound", ID: "j", TaskGroups: []*job.TaskGroup{{
		Name:  "g",
		Tasks: []*job.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "x"}}},
	}}}
	if _, err := Job(c.Store.Snapshot(), bound); err == nil ||
		!strings.Contains(err.Error(), `driver "exec" is not allowed in namespace "bound"`) {
		t.Errorf("a driver that the namespace does not allow: %v", err)
	}
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "silent", Status: node.StatusReady, Drivers: healthy()}})
	wrong := &job.Task{Name: "t", Driver: "exec", KillSignal: "SIGFOO", Config: map[string]any{"commnd": "x"}}
	odd := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", TaskGroups: []*job.TaskGroup{
		{Name: "g", Tasks: []*job.Task{wrong}},
	}}
	if _, err := Job(c.Store.Snapshot(), odd); err != nil {
		t.Errorf("beside a node that does not say what its driver takes: %v", err)
	}
}

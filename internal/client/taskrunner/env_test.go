package taskrunner_test

import (
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
	"berth/internal/client/taskrunner"
	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

func source(iso driver.Isolation) taskrunner.EnvSource {
	task := &job.Task{
		Name: "my-task",
		Env:  map[string]string{"URL": "http://${NOMAD_ADDR_http}/${meta.rack}", "NOMAD_REGION": "mine"},
		Meta: map[string]string{"k": "task"},
	}
	group := &job.TaskGroup{Name: "g", Tasks: []*job.Task{task}, Meta: map[string]string{"k": "group", "g": "1"}}
	return taskrunner.EnvSource{
		Task:      task,
		Group:     group,
		Region:    "global",
		Isolation: iso,

		ParentCgroup: "berth.slice",

		Dir: allocdir.New("/data", "11111111-2222-4333-8444-555555555555"),
		Node: &node.Node{
			ID:         "n",
			Name:       "n1",
			Datacenter: "dc1",
			Meta:       map[string]string{"rack": "r1"},
			Attributes: map[string]string{"cpu.arch": "amd64"},
		},
		Bundle: alloc.Bundle{
			Job: &job.Job{
				ID:         "j",
				Name:       "j",
				Meta:       map[string]string{"k": "job", "j": "1"},
				TaskGroups: []*job.TaskGroup{group},
			},
			Alloc: &alloc.Alloc{
				ID:        "11111111-2222-4333-8444-555555555555",
				Namespace: "default",
				Index:     3,
				Resources: alloc.Resources{
					Tasks: map[string]alloc.TaskResources{"my-task": {CPUShares: 500, MemoryMB: 64, MemoryMaxMB: 128}},
					Ports: []alloc.PortMapping{{Label: "http", Value: 23456, HostIP: "127.0.0.1"},
						{Label: "v6-admin", Value: 5, To: 80, HostIP: "::1"}}},
			},
		},
	}
}

func envOf(t *testing.T, s taskrunner.EnvSource) taskenv.Env {
	t.Helper()
	env, err := taskrunner.NewEnv(s)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestTheEnvironmentOfATask(t *testing.T) {
	env := envOf(t, source(driver.IsolationNone)).Vars
	for k, want := range map[string]string{
		"NOMAD_ALLOC_INDEX": "3", "NOMAD_CPU_LIMIT": "500", "NOMAD_MEMORY_LIMIT": "64", "NOMAD_MEMORY_MAX_LIMIT": "128",
		"NOMAD_DC": "dc1", "NOMAD_PARENT_CGROUP": "berth.slice",
		"NOMAD_NAMESPACE": "default", "NOMAD_META_k": "task", "NOMAD_META_K": "task", "NOMAD_META_g": "1",
		"NOMAD_META_j":    "1",
		"NOMAD_PORT_http": "23456", "NOMAD_ADDR_http": "127.0.0.1:23456", "NOMAD_HOST_PORT_http": "23456",
		"NOMAD_ALLOC_PORT_v6_admin": "80",
		"NOMAD_PORT_v6_admin":       "80", "NOMAD_HOST_ADDR_v6_admin": "[::1]:5",
		"NOMAD_ADDR_my_task_http": "127.0.0.1:23456",
		"URL":                     "http://127.0.0.1:23456/r1", "NOMAD_REGION": "mine",
		"NOMAD_ALLOC_DIR":   "/data/11111111-2222-4333-8444-555555555555/alloc",
		"NOMAD_SECRETS_DIR": "/data/11111111-2222-4333-8444-555555555555/my-task/secrets",
	} {
		if env[k] != want {
			t.Errorf("%s = %q, want %q", k, env[k], want)
		}
	}
}

func TestAnIsolatedTaskSeesItsOwnPaths(t *testing.T) {
	env := envOf(t, source(driver.IsolationChroot)).Vars
	if env["NOMAD_ALLOC_DIR"] != "/alloc" || env["NOMAD_TASK_DIR"] != "/local" ||
		env["NOMAD_SECRETS_DIR"] != "/secrets" {
		t.Errorf("%s %s %s", env["NOMAD_ALLOC_DIR"], env["NOMAD_TASK_DIR"], env["NOMAD_SECRETS_DIR"])
	}
}

func TestReferencesAreReplacedAndUnknownOnesStay(t *testing.T) {
	env := envOf(t, source(driver.IsolationNone)).With(map[string]string{"CSI_ENDPOINT": "unix:///csi.sock"})
	for text, want := range map[string]string{
		"${CSI_ENDPOINT}": "unix:///csi.sock", `${env["NOMAD_DC"]}`: "dc1",
		"${attr.cpu.arch}-${node.unique.name}": "amd64-n1",
		"${HOME}/${meta.none} $X ${}":          "${HOME}/${meta.none} $X ${}",
		"${node.datacenter}${node.region}":     "dc1global",
		"plain":                                "plain",
	} {
		if got, err := env.Replace(text); err != nil || got != want {
			t.Errorf("%q becomes %q, want %q: %v", text, got, want, err)
		}
	}
	config := map[string]any{"a": []any{map[string]any{"b": "${NOMAD_DC}", "n": 3}}}
	replaced, err := env.ReplaceAll(config)
	if err != nil {
		t.Fatal(err)
	}
	got := replaced["a"].([]any)[0].(map[string]any)
	if got["b"] != "dc1" || got["n"] != 3 {
		t.Errorf("nested: %v", got)
	}
	if config["a"].([]any)[0].(map[string]any)["b"] != "${NOMAD_DC}" {
		t.Error("the job itself was changed")
	}
}

// tenfold is an environment of so many variables, each ten times the one before.
func tenfold(n int) map[string]string {
	out := map[string]string{"a0": "0123456789"}
	for i := 1; i < n; i++ {
		out["a"+strconv.Itoa(i)] = strings.Repeat("${a"+strconv.Itoa(i-1)+"}", 10)
	}
	return out
}

// Given an environment whose variables multiply each other, or that is larger than what a process can be given, when it
// is made, then it ends at the bound, with the name of the variable that passes it; and so do a config and any other
// text that refer to it.
func TestAnEnvironmentIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range 30 {
		many["m"+strconv.Itoa(10+i)] = strings.Repeat("x", 100_000)
	}
	for says, c := range map[string]struct{ env, meta map[string]string }{
		`set variable "a5": with what ${…} stands for it has more than 131072 bytes`: {env: tenfold(9)},
		`set variable "B": with its name it has 200003 bytes`: {
			env: map[string]string{"B": strings.Repeat("x", 200_000)},
		},
		`set variable "m30": with those before it the environment has `: {env: many},
		`set variable "NOMAD_META_M": with its name it has 200014 bytes`: {
			meta: map[string]string{"M": strings.Repeat("x", 200_000)},
		},
		`name variable "z${a4}${a4}": with what ${…} stands for it has more`: {env: longName()},
	} {
		s := source(driver.IsolationNone)
		s.Task.Env, s.Task.Meta = c.env, c.meta
		if _, err := taskrunner.NewEnv(s); !fault.Has(err, fault.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	s := source(driver.IsolationNone)
	s.Task.Env = tenfold(5)
	env := envOf(t, s)
	if _, err := env.Replace(strings.Repeat("${a4}", 20)); !fault.Has(err, fault.Invalid) {
		t.Errorf("a text: %v", err)
	}
	args := make([]any, 1000)
	for i := range args {
		args[i] = "${a4}"
	}
	if _, err := env.ReplaceAll(map[string]any{"args": args}); !fault.Has(err, fault.Invalid) {
		t.Errorf("a config: %v", err)
	}
	if out, err := env.ReplaceAll(map[string]any{"args": args[:80]}); err != nil ||
		len(out["args"].([]any)[79].(string)) != 100_000 {
		t.Errorf("a config within the bound: %v", err)
	}
}

func longName() map[string]string {
	out := tenfold(5)
	delete(out, "a0")
	out["a1"] = strings.Repeat("0123456789", 10)
	out["z${a4}${a4}"] = "x"
	return out
}

package client_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/alloc"
)

// recorded calls visit with every object in the replies that an unmodified client saw.
func recorded(t *testing.T, visit func(map[string]any)) {
	t.Helper()
	files, err := filepath.Glob("../../api/testdata/replies/*.json")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d observed replies: %v", len(files), err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			visit(v)
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Body any }
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		walk(v.Body)
	}
}

// notOurs are attributes of nodes that were observed and that ours have not, each with the reason.
var notOurs = map[string]string{
	"driver.raw_exec":                   "the node of the test has another driver",
	"nomad.bridge.hairpin_mode":         "networks of mode bridge are not built",
	"nomad.revision":                    "it is of a build of another program",
	"plugins.host_volume.mkdir.version": "dynamic host volumes are not built",
	"plugins.secrets.nomad.version":     "the attribute secret is not built",
	"plugins.secrets.vault.version":     "the attribute secret is not built",
	"unique.advertise.address":          "the node of the test serves no HTTP API",
}

// mayLack are attributes that depend on the machine.
var mayLack = []string{"cpu.modelname", "kernel.landlock", "numa.node.count", "numa.node0.cores"}

// TestNodesHaveTheAttributesThatWereObserved: constraints of existing jobs name them, and nothing else holds their
// names: where replies are compared, one attribute stands for all.
func TestNodesHaveTheAttributesThatWereObserved(t *testing.T) {
	r := newRig(t)
	r.start()
	eventually(t, "the node is registered", func() bool { return r.servers.times() > 0 })
	r.servers.mu.Lock()
	have := maps.Clone(r.servers.node.Attributes)
	r.servers.mu.Unlock()
	seen := map[string]bool{}
	recorded(t, func(o map[string]any) {
		all, _ := o["Attributes"].(map[string]any)
		for name := range all {
			seen[name] = true
		}
	})
	if len(seen) < 25 {
		t.Fatalf("observed are only %v", slices.Sorted(maps.Keys(seen)))
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		_, is := have[name]
		if why := notOurs[name]; is == (why != "") && !slices.Contains(mayLack, name) {
			t.Errorf("%s: the node has it: %t; the reason not to: %q", name, is, why)
		}
	}
	for name := range notOurs {
		if !seen[name] {
			t.Errorf("%s was not observed", name)
		}
	}
}

// TestEventsHaveTheDetailsThatWereObserved: details of a task's events have the observed names. The names of what was
// not observed are held by the stories of tasks.
func TestEventsHaveTheDetailsThatWereObserved(t *testing.T) {
	want := map[string][]string{}
	recorded(t, func(o map[string]any) {
		kind, _ := o["Type"].(string)
		if details, is := o["Details"].(map[string]any); is && o["DisplayMessage"] != nil {
			want[kind] = slices.Sorted(maps.Keys(details))
		}
	})
	r := newRig(t)
	r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "the servers hear that it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	compared := 0
	for _, e := range r.servers.last(id).TaskStates["web"].Events {
		if names, is := want[e.Type]; is {
			compared++
			if got := slices.Sorted(maps.Keys(e.Details)); !slices.Equal(got, names) {
				t.Errorf("%s has details %v, observed were %v", e.Type, got, names)
			}
		}
	}
	if compared != 3 || len(want) != 3 {
		t.Errorf("%d kinds of events were compared, observed are %v", compared, want)
	}
}

// TestWhatBecomesOfAnAllocIsInTheLogOfDebugging: at debug an agent's log has every event of a task and every change of
// an allocation's status, with its id.
func TestWhatBecomesOfAnAllocIsInTheLogOfDebugging(t *testing.T) {
	r := newRig(t)
	r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "the servers hear that it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	r.servers.stop(id)
	eventually(t, "the log has its end", func() bool {
		return strings.Contains(r.lines.String(), "is="+alloc.ClientComplete)
	})
	has := func(texts ...string) bool {
		for line := range strings.Lines(r.lines.String()) {
			if !slices.ContainsFunc(texts, func(p string) bool { return !strings.Contains(line, p) }) {
				return true
			}
		}
		return false
	}
	for _, e := range r.servers.last(id).TaskStates["web"].Events {
		quoted := e.Type
		if strings.Contains(quoted, " ") {
			quoted = `"` + quoted + `"`
		}
		if !has("level=DEBUG", `msg="task event"`, string(id), "task=web", "event="+quoted) {
			t.Errorf("the log has no line of the event %s", e.Type)
		}
	}
	for _, status := range []string{alloc.ClientRunning, alloc.ClientComplete} {
		if !has("level=DEBUG", `msg="allocation acknowledged"`, string(id), "is="+status) {
			t.Errorf("the log has no line of %s", status)
		}
	}
}

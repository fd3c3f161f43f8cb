package filter

import (
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Given tasks that ask for processes or not, and nodes with a cap or without, then those nodes are passed over that do
// not give a task what it asks for, with both numbers and a way out.
func TestANodeGivesTheProcessesThatATaskAsksFor(t *testing.T) {
	task := func(name string, pids int) *job.Task {
		return &job.Task{Name: name, Resources: &job.Resources{PIDs: pids}}
	}
	capped := &node.Node{Attributes: map[string]string{node.AttributeMaxPIDs: "500"}}
	for name, c := range map[string]struct {
		tasks   []*job.Task
		node    *node.Node
		refused bool
	}{
		"no number":    {[]*job.Task{task("web", 0), {Name: "bare"}}, capped, false},
		"as many":      {[]*job.Task{task("web", 500)}, capped, false},
		"one more":     {[]*job.Task{task("small", 10), task("web", 501), task("last", 1)}, capped, true},
		"without caps": {[]*job.Task{task("web", 1<<20)}, &node.Node{}, false},
	} {
		chain := Prepare(&Request{Job: &job.Job{}, Group: &job.TaskGroup{Tasks: c.tasks}}, &PIDs{})
		f, key := chain.Check(c.node)
		if (f != nil) != c.refused {
			t.Errorf("%s: %q", name, key)
		}
		if !c.refused {
			continue
		}
		reason, hint := f.Explain(c.node)
		for _, want := range []string{`task "web"`, "501", "at most 500", "pids = 500", "max_pids"} {
			if !strings.Contains(reason+hint, want) {
				t.Errorf("%s: %q is not in: %s; %s", name, want, reason, hint)
			}
		}
	}
}

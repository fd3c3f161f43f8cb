package jobrules_test

import (
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
)

// Given templates whose files lie beside the directories that a task sees, then a warning says so, where the task has a
// root of its own and the file is more than variables.
func TestTemplatesThatATaskDoesNotSeeAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		driver, destination string
		env, warned         bool
	}{
		"in the task's own":     {driver: "exec", destination: "local/bin/sh"},
		"over a program":        {driver: "exec", destination: "bin/sh", warned: true},
		"variables":             {driver: "exec", destination: "vars", env: true},
		"on the node's own":     {driver: "raw_exec", destination: "bin/sh"},
		"where a node knows it": {driver: "exec", destination: "${NOMAD_TASK_DIR}/x"},
	} {
		j := samplejob.New()
		task := j.TaskGroups[0].Tasks[0]
		task.Driver = c.driver
		task.Templates = []*api.Template{
			{EmbeddedTmpl: new("x"), DestPath: new(c.destination), Envvars: new(c.env)},
		}
		jobrules.Canonicalize(j, "global", "default")
		said := strings.Join(jobrules.Warnings(j), "\n")
		if got := strings.Contains(said, "does not see destination"); got != c.warned {
			t.Errorf("%s: it says %q", name, said)
		}
	}
}

package jobrules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
)

// Given secret blocks and texts that name secrets, then those are taken that a task may read, and names that it has.
func TestSecretsOfATask(t *testing.T) {
	of := func(provider, path string) api.Secret { return api.Secret{Name: "db", Provider: provider, Path: path} }
	with := func(name, value string) api.Secret {
		return api.Secret{Name: "db", Provider: "nomad", Path: "nomad/jobs", Config: map[string]any{name: value}}
	}
	for name, c := range map[string]struct {
		secret api.Secret
		text   string
		wrong  string
	}{
		"a good one":          {of("nomad", "nomad/jobs/web"), "${secret.db.x}", ""},
		"one of the task":     {of("nomad", "nomad/jobs/web/g/t"), "", ""},
		"in its namespace":    {with("namespace", "default"), "", ""},
		"no provider":         {of("", "nomad/jobs"), "", "missing provider"},
		"no path":             {of("nomad", ""), "", "missing path"},
		"of another job":      {of("nomad", "nomad/jobs/we"), "", "of its own job"},
		"of another place":    {with("namespace", "other"), "", "own namespace"},
		"another option":      {with("x", "y"), "", `no "x"`},
		"a name with a point": {api.Secret{Name: "d.b", Provider: "nomad", Path: "nomad/jobs"}, "", "a name has"},
		"a text with another": {of("nomad", "nomad/jobs"), "${secret.no.x}", "it has db"},
	} {
		j := samplejob.New()
		task := j.TaskGroups[0].Tasks[0]
		task.Secrets = []*api.Secret{&c.secret}
		task.Config = map[string]any{"command": "/bin/x", "args": []any{c.text}}
		jobrules.Canonicalize(j, "global", "default")
		said := fmt.Sprint(errors.Join(jobrules.Validate(j)...))
		if c.wrong == "" && said != "<nil>" || !strings.Contains(said, c.wrong) {
			t.Errorf("%s: %s, want %q", name, said, c.wrong)
		}
	}
}

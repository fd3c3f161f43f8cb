package jobrules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/model/job"
)

// unseenTemplates warns of files that lie beside what a task sees: they take the place of nothing there, and a task
// whose root is not the node's finds them nowhere. One that makes variables alone need not be found.
func unseenTemplates(j *api.Job) (out []string) {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.Driver == "raw_exec" { // its tasks see the node's own paths
				continue
			}
			for i, tm := range t.Templates {
				dest := path.Clean(*tm.DestPath)
				first, _, _ := strings.Cut(dest, "/")
				seen := slices.Contains([]string{job.SharedDir, job.LocalDir, job.SecretsDir, job.TmpDir}, first)
				if seen || *tm.Envvars || path.IsAbs(dest) || strings.Contains(dest, "${") {
					continue
				}
				out = append(out, fmt.Sprintf("group %q: task %q: template %d: the task does not see destination %q; "+
					"begin it with local/, secrets/ or alloc/", g.Name, t.Name, i+1, shorten(dest)))
			}
		}
	}
	return out
}

package job

import (
	"fmt"
	"maps"
	"slices"
)

// What a task's environment may take. The kernel starts no program with a variable beyond 128 KiB, or with 2 MiB of
// them and of arguments; meta stands in it under two names, and templates and services add to it.
const (
	MaxVariable    = 120 << 10
	MaxEnvironment = 512 << 10
)

// Heavy lists the tasks that no node could start, because meta and env fill more than an environment holds.
func (j *Job) Heavy() []error {
	var out []error
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			at := fmt.Sprintf("group %q: task %q: ", g.Name, t.Name)
			sum := 0
			for _, m := range []map[string]string{j.Meta, g.Meta, t.Meta, t.Env} {
				for _, k := range slices.Sorted(maps.Keys(m)) {
					n := len(k) + len(m[k])
					if sum += n; n > MaxVariable {
						out = append(out, fmt.Errorf("%s%.40q has %d bytes, and a value of meta or env may have %d "+
							"with its name: keep it where the task can fetch it", at, k, n, MaxVariable))
					}
				}
			}
			if sum > MaxEnvironment {
				out = append(out, fmt.Errorf("%smeta and env have %d bytes, and may have %d together", at, sum,
					MaxEnvironment))
			}
		}
	}
	return out
}

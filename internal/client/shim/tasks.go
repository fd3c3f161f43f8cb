package shim

import (
	"strconv"

	"berth/internal/base/ids"
)

// Processes maps the names of an alloc's tasks to their processes, those that hold a task's namespaces too. Where
// nothing is launched there are none.
func (l *Launcher) Processes(alloc ids.Alloc) (map[string][]int, error) {
	if l == nil {
		return nil, nil
	}
	groups, err := l.tree.Tasks(l.cfg.Slice, string(alloc))
	if err != nil {
		return nil, err
	}
	out := map[string][]int{}
	for name, g := range groups {
		for _, text := range g.Processes() {
			if pid, err := strconv.Atoi(text); err == nil && pid > 0 { // 0: in a namespace that is not below this one
				out[name] = append(out[name], pid)
			}
		}
	}
	return out, nil
}

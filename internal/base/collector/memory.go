package collector

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is how much the machine has, or how much of it this process may have with others: the least that a control
// group says in which it is. 0: nothing says it.
func memory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	all := info.Totalram * uint64(info.Unit)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return all
	}
	return allowed(all, "/sys/fs/cgroup", string(own))
}

// allowed is how much of all memory the control group may have that /proc/self/cgroup names, in a hierarchy of version
// 2; a limit counts for all that is below it.
func allowed(all uint64, root, own string) uint64 {
	for line := range strings.Lines(own) {
		path, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !v2 {
			continue
		}
		for at := filepath.Join("/", path); ; at = filepath.Dir(at) {
			text, _ := os.ReadFile(filepath.Join(root, at, "memory.max")) // the highest has none
			if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				all = min(all, limit)
			}
			if at == "/" {
				break
			}
		}
	}
	return all
}

package collector

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// memory is how much this process may have, with others: what the machine has, or the least that a control group says
// in which it is; then it is limited. 0: nothing says it.
func memory() (may uint64, limited bool) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0, false
	}
	all := info.Totalram * uint64(info.Unit)
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return all, false
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return all, false
	}
	may = allowed(all, string(table), string(own))
	return may, may < all
}

// allowed is how much of all memory the control groups may have that /proc/self/cgroup names, in the hierarchies that
// /proc/self/mountinfo names; a limit counts for all that is below it. Both versions may be there, and each may have
// the one for memory.
func allowed(all uint64, table, own string) uint64 {
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(table),
		func(m *mountinfo.Info) (skip, stop bool) { return limitIn(m) == "", false })
	if err != nil {
		return all
	}
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		controllers := strings.Split(fields[1], ",")
		for _, m := range mounts {
			if v2 := m.FSType == cgroup2; v2 == (fields[1] == "") && (v2 || slices.Contains(controllers, "memory")) {
				all = min(all, least(m, fields[2]))
			}
		}
	}
	return all
}

const cgroup2 = "cgroup2"

// limitIn is the file with the limit of a group's memory in a hierarchy; empty: it knows none.
func limitIn(m *mountinfo.Info) string {
	switch {
	case m.FSType == cgroup2:
		return "memory.max"
	case m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), "memory"):
		return "memory.limit_in_bytes"
	}
	return ""
}

// least is the least that a group and those above it may have, as far as they are seen from here.
func least(m *mountinfo.Info, group string) uint64 {
	seen, ok := strings.CutPrefix(group, strings.TrimSuffix(m.Root, "/"))
	if !ok || seen != "" && seen[0] != '/' {
		seen = "/" // it lies outside of what is mounted: that is a container's, and the container is in it
	}
	may := ^uint64(0)
	for at := filepath.Join("/", seen); ; at = filepath.Dir(at) {
		text, _ := os.ReadFile(filepath.Join(m.Mountpoint, at, limitIn(m))) // the highest of version 2 has none
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			may = min(may, limit)
		}
		if at == "/" {
			return may
		}
	}
}

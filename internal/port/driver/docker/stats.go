package docker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// Stats implements driver.Task.
func (t *task) Stats(ctx context.Context) (driver.Stats, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	u, err := t.d.api.Usage(limited, t.st.Container)
	if err != nil {
		return driver.Stats{}, fault.Note(err, "read usage of", subject(t.handle.Task))
	}
	m := u.Memory.Stats
	s := driver.Stats{
		Time:           u.Read,
		CPUNanos:       u.CPU.Usage.Total,
		UserNanos:      u.CPU.Usage.User,
		SystemNanos:    u.CPU.Usage.Kernel,
		ThrottledNanos: u.CPU.Throttling.Time,
		MemoryRSS:      max(m["total_rss"], m["anon"]),
		MemoryCache:    max(m["total_cache"], m["file"]),
		MemoryUsage:    u.Memory.Usage,
		MemoryMax:      max(u.Memory.Max, u.Memory.Usage),
		PIDs:           u.PIDs.Current,
	}
	if s.Time.IsZero() {
		s.Time = time.Now()
	}
	return s, nil
}

// OOMKills implements driver.OOMCounter: what the kernel counts in the container's control group.
func (t *task) OOMKills() int64 {
	t.mu.Lock()
	path := t.oom
	if path == "" && t.handle.PID > 0 && t.end == nil {
		path = oomFile(t.handle.PID)
		t.oom = path
	}
	t.mu.Unlock()
	text, err := os.ReadFile(path)
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// oomFile is the file of a process's control group that counts kills for the memory limit; empty: it is not found.
func oomFile(pid int) string {
	group := groupOf(pid)
	for _, name := range []string{"memory.oom_control", "memory.events"} {
		if _, err := os.Stat(filepath.Join(group, name)); group != "" && err == nil {
			return filepath.Join(group, name)
		}
	}
	return ""
}

package shimproto

import (
	"strconv"
	"strings"

	"berth/internal/base/bootclock"
)

// Boottime is bootclock.Now in nanoseconds, as messages carry it.
func Boottime() int64 { return int64(bootclock.Now()) }

// SplitName reads task and attempt from the name of a process; false when it is not of that form.
func SplitName(name string) (task string, attempt int, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(name[i+1:])
	return name[:i], attempt, err == nil && attempt >= 0
}

// Complete fills in task and attempt from the name: an agent of version 1 leaves one or both out.
func (m *Named) Complete() {
	task, attempt, ok := SplitName(m.Name)
	switch {
	case m.Attempt != 0:
	case ok:
		m.Task, m.Attempt = task, attempt
	case m.Task == "":
		m.Task = m.Name
	}
}

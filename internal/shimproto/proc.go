package shimproto

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
)

// StartTime reads when a process started, in clock ticks since boot: with the pid it names one process for as long as
// the machine runs.
func StartTime(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return 0, fault.New(fault.NotFound, "look at", "process "+strconv.Itoa(pid), "it does not exist")
	}
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "look at", "process "+strconv.Itoa(pid))
	}
	// The second field is the program's name in parentheses, which may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0, fault.New(fault.Internal, "look at", "process "+strconv.Itoa(pid), "its stat line is short")
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, fault.New(fault.NotFound, "look at", "process "+strconv.Itoa(pid), "it has ended")
	}
	n, err := strconv.ParseUint(f[19], 10, 64)
	return n, fault.Wrap(err, fault.Internal, "look at", "process "+strconv.Itoa(pid))
}

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

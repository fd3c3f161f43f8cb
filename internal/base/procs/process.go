// Package procs owns how one process is told from others for as long as the machine runs. Everybody may import it.
package procs

import (
	"errors"
	"os"
	"strconv"
	"strings"

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

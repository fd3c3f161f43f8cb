package shim

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killRounds bounds how often it is looked for what a command has started: what is killed may have started more.
const killRounds = 16

// kin is where a process comes from.
type kin struct{ parent, group, session int }

// killOffspring kills those of the processes that a leader of a session has started, in other process groups than its
// own: those of its session, its descendants, and what those have started. It reports whether there were any.
func killOffspring(leader int, pids []string) (found bool) {
	all := map[int]kin{}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil || pid == leader {
			continue
		}
		if k, ok := kinOf(pid); ok {
			all[pid] = k
		}
	}
	for pid, k := range all {
		if k.group == leader || !descends(pid, leader, all) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if now, ok := kinOf(pid); ok && now == k { // else the number is another process's by now
			found = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil || found
		}
		_ = unix.Close(fd) // nothing was written to it
	}
	return found
}

// descends reports whether a process is of a leader's session, or has a parent that is the leader or descends from it.
func descends(pid, leader int, all map[int]kin) bool {
	for range len(all) {
		k, ok := all[pid]
		if !ok {
			return false
		}
		if k.session == leader || k.parent == leader {
			return true
		}
		pid = k.parent
	}
	return false
}

// kinOf reads where a process comes from; false: it has ended, and perhaps its parent has not heard of it.
func kinOf(pid int) (kin, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return kin{}, false
	}
	// The name of the program is in brackets, and may contain some.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 4 || fields[0][0] == 'Z' {
		return kin{}, false
	}
	var k kin
	for i, to := range []*int{&k.parent, &k.group, &k.session} {
		if *to, err = strconv.Atoi(string(fields[1+i])); err != nil {
			return kin{}, false
		}
	}
	return k, true
}

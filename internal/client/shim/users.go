package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// An alloc's numbers of users are written beside its shim's socket, before anything of it runs with them, and taken
// away where the socket is: when nothing of the alloc is left. So they are known whoever has died, and an orphan's are
// given to nobody.
const idsSuffix = ".ids"

func (l *Launcher) idsFile(stem string) string { return filepath.Join(l.cfg.Dir, stem+idsSuffix) }

// takeIDs returns the first of the numbers of users that an alloc has, which it is given from the range when it has
// none. Two allocs never share one. fault.Exhausted: all are taken. The alloc's shim runs.
func (l *Launcher) takeIDs(alloc string, r driver.IDRange) (uint32, error) {
	l.ids.Lock()
	defer l.ids.Unlock()
	first, ok, err := l.readIDs(stem(alloc))
	if err != nil || ok {
		return first, err
	}
	taken, err := l.takenIDs()
	if err != nil {
		return 0, err
	}
	for i := range r.Allocs() {
		first := r.First + uint32(i)*driver.IDsPerAlloc
		if overlaps(taken, first) {
			continue
		}
		path := l.idsFile(stem(alloc))
		if err := durable.WriteFile(path, fmt.Appendf(nil, "%d\n", first), 0o600); err != nil {
			return 0, fault.Wrap(err, fault.Internal, "write", "numbers of users to "+path)
		}
		return first, nil
	}
	return 0, fault.WithHint(
		fault.New(fault.Exhausted, "give users to", "alloc "+ids.Short(alloc), fmt.Sprintf(
			"the node's range %d-%d has numbers for %d allocs, and all are taken by what runs or has not ended here",
			r.First, r.Last, r.Allocs())),
		"stop other jobs of the node, end its orphans, or widen user_namespaces in the agent's plugin \"exec\" block")
}

// overlaps reports whether any of an alloc's numbers is another's: the ranges of two configurations need not begin at
// the same numbers.
func overlaps(taken []uint32, first uint32) bool {
	for _, t := range taken {
		if int64(t)-int64(first) < driver.IDsPerAlloc && int64(first)-int64(t) < driver.IDsPerAlloc {
			return true
		}
	}
	return false
}

// takenIDs are the numbers of all allocs. Those of one that has neither a socket nor a process are given back.
func (l *Launcher) takenIDs() ([]uint32, error) {
	files, err := filepath.Glob(l.idsFile("*"))
	if err != nil {
		return nil, err
	}
	var out []uint32
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), idsSuffix)
		_, socketErr := os.Lstat(l.socket(name))
		if errors.Is(socketErr, os.ErrNotExist) && !l.populated(ids.Alloc(name)) {
			if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fault.Wrap(err, fault.Internal, "remove", f)
			}
			continue
		}
		first, ok, err := l.readIDs(name)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, first)
		}
	}
	return out, nil
}

// readIDs reads the numbers of an alloc; false: it has none. A file that says nothing is refused: what runs with its
// numbers cannot be told.
func (l *Launcher) readIDs(stem string) (first uint32, ok bool, err error) {
	path := l.idsFile(stem)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	n, numErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err == nil && numErr == nil && n > 0 {
		return uint32(n), true, nil
	}
	return 0, false, fault.WithHint(
		fault.Wrap(errors.Join(err, numErr), fault.Internal, "read", "numbers of users from "+path),
		"the first of them stands in /proc/PID/uid_map of any task of the alloc: write it there, or stop the alloc and "+
			"remove the file")
}

// dropIDs gives back the numbers of an alloc of which nothing is left.
func (l *Launcher) dropIDs(alloc string) error {
	path := l.idsFile(stem(alloc))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "remove", path)
	}
	return nil
}

// checkUsers says so when a task that was to have a user namespace has none: a shim that an earlier release started, or
// an attempt that was started before the agent was configured so, and was taken up. Its files are right all the same.
func (l *Launcher) checkUsers(spec *driver.LaunchSpec, m *shimproto.Launch, pid int) {
	if m.Isolate == nil || m.Isolate.FirstID == 0 {
		return
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	ours, ownErr := os.Readlink("/proc/self/ns/user")
	if err == nil && ownErr == nil && its == ours { // an error: it has ended
		l.cfg.Log.Warn("a task shares the node's users until its allocation ends: its shim was started by an earlier "+
			"version, or before user_namespaces was set", logkey.Alloc, spec.AllocID, logkey.Task, spec.Task)
	}
}

// fits refuses a user that a user namespace does not have.
func fits(u *shimproto.User) error {
	for _, id := range append([]uint32{u.UID, u.GID}, u.Groups...) {
		if id >= driver.IDsPerAlloc {
			return fault.WithHint(
				fault.New(fault.Unsupported, "", fmt.Sprintf("user or group %d", id),
					fmt.Sprintf("tasks of this node have user namespaces, in which the numbers end at %d",
						driver.IDsPerAlloc-1)),
				"name a user with smaller numbers, or have the task run on another node: a constraint on "+
					"${attr.driver.exec.user_namespaces} with the operator is_not_set finds one")
		}
	}
	return nil
}

// probeLimit bounds the try whether tasks can have user namespaces.
const probeLimit = 30 * time.Second

// CheckIDs implements driver.IDChecker, by trying: what the kernel, and the file systems of the trees and of the
// launcher's directory, let a task have is known before a job is placed. What went well is not tried again.
func (l *Launcher) CheckIDs(r driver.IDRange, trees []string) error {
	l.probing.Lock()
	defer l.probing.Unlock()
	if l.probed != nil && *l.probed == r {
		return nil
	}
	program, err := l.cfg.Program()
	if err != nil {
		return err
	}
	defer program.Close()
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	args := append([]string{"users", strconv.FormatUint(uint64(r.First), 10), l.cfg.Dir}, trees...)
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()), args...)
	cmd.Env = []string{"GOMAXPROCS=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimPrefix(string(bytes.TrimSpace(out)), "berth-helper users: ")
		if text == "" {
			text = err.Error()
		}
		return fault.New(fault.Unsupported, "use", "user_namespaces of plugin \"exec\"", text)
	}
	l.probed = &r
	return nil
}

package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// living tells whose numbers of users are in use.
type living struct{ l *Launcher }

// Lives implements numbers.Living: an alloc's socket goes after its last process, with its numbers.
func (v living) Lives(name string) bool {
	_, err := os.Lstat(v.l.socket(name))
	return !errors.Is(err, os.ErrNotExist) || v.l.populated(ids.Alloc(name))
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

// CheckIO implements driver.IOChecker.
func (l *Launcher) CheckIO() error { return l.tree.CheckIO() }

// CheckIDs implements driver.IDChecker, by trying: what the kernel, and the file systems of the trees and of the
// launcher's directory, let a task have is known before a job is placed. What went well is not tried again.
func (l *Launcher) CheckIDs(ctx context.Context, r driver.IDRange, trees []string) error {
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
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
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

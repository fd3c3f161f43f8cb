package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Group is the control group of one process.
type Group struct {
	tree *Tree
	rel  string
}

// Dir is the group's directory in the v2 tree.
func (g *Group) Dir() string { return filepath.Join(g.tree.V2, g.rel) }

// TaskLeaf is the directory that the task's processes are put into.
func (g *Group) TaskLeaf() string { return filepath.Join(g.Dir(), "task") }

// leafRel is where the leaf of the task's processes lies below the mount points of v1 hierarchies.
func (g *Group) leafRel() string { return filepath.Join(g.rel, "task") }

// HelperLeaf is the directory that Berth's own processes are put into.
func (g *Group) HelperLeaf() string { return filepath.Join(g.Dir(), "helper") }

// Joins lists the v1 files of Visit: those of the group, and those that take a thread back to where the shim is.
func (g *Group) Joins() (join, back []string) {
	for _, point := range g.tree.points(taskControllers) {
		dir := filepath.Join(point, g.leafRel())
		if !g.tree.ops.exists(filepath.Join(dir, "tasks")) {
			continue
		}
		join = append(join, filepath.Join(dir, "tasks"))
		home := filepath.Join(point, filepath.Dir(g.rel))
		if point == g.tree.V1["cpuset"] {
			home = point
		}
		back = append(back, filepath.Join(home, "tasks"))
	}
	return join, back
}

// Shown maps names below /sys/fs/cgroup to the directories that a task may see there: its own groups. The empty name is
// the whole of it, on a node that has only the v2 tree.
func (g *Group) Shown() map[string]string {
	if len(g.tree.V1) == 0 {
		return map[string]string{"": g.TaskLeaf()}
	}
	out := map[string]string{"unified": g.TaskLeaf()}
	for _, c := range taskControllers {
		if dir := filepath.Join(g.tree.V1[c], g.leafRel()); g.tree.V1[c] != "" && g.tree.ops.exists(dir) {
			out[c] = dir
		}
	}
	return out
}

// Kill sends SIGKILL to every process of the group. A group that does not exist has none.
func (g *Group) Kill() error {
	err := g.tree.ops.write(filepath.Join(g.Dir(), "cgroup.kill"), "1")
	if errors.Is(err, fs.ErrNotExist) && g.tree.ops.exists(g.Dir()) {
		return fault.WithHint(fault.Wrap(err, fault.Unsupported, "kill", "cgroup "+g.Dir()),
			"Linux 5.14 or later is needed")
	}
	if gone(err) {
		return nil
	}
	return fault.Wrap(err, fault.Internal, "kill", "cgroup "+g.Dir())
}

// Empty reports whether no process lives in the group.
func (g *Group) Empty() (bool, error) {
	b, err := os.ReadFile(filepath.Join(g.Dir(), "cgroup.events"))
	if gone(err) {
		return true, nil
	}
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "read", "cgroup "+g.Dir())
	}
	return strings.Contains(string(b), "populated 0"), nil
}

// WaitEmpty returns when no process lives in the group. The kernel says so; the time-out only lets ctx be looked at.
func (g *Group) WaitEmpty(ctx context.Context) error {
	fd, err := unix.Open(filepath.Join(g.Dir(), "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "watch", "cgroup "+g.Dir())
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	for {
		n, err := unix.Pread(fd, buf, 0)
		if gone(err) {
			return nil
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "watch", "cgroup "+g.Dir())
		}
		if strings.Contains(string(buf[:n]), "populated 0") {
			return nil
		}
		if ctx.Err() != nil {
			return &fault.Error{
				Kind:    fault.Timeout,
				Op:      "wait for",
				Subject: "the processes of cgroup " + g.Dir(),
				Err:     ctx.Err(),
				Hint:    "still there: " + strings.Join(g.Processes(), ", "),
			}
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, 50); err != nil &&
			!errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", "cgroup "+g.Dir())
		}
	}
}

// Processes lists the pids of the group and of groups below it, for people.
func (g *Group) Processes() []string { return processes(g.Dir()) }

func processes(dir string) []string {
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil {
			out = append(out, strings.Fields(string(b))...)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	slices.Sort(out)
	return out
}

// holders names the processes that have a thread in a group.
func holders(dir string) []string {
	pids := processes(dir)
	for i, pid := range pids {
		comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err == nil { // it may have ended
			pids[i] += " (" + strings.TrimSpace(string(comm)) + ")"
		}
	}
	return pids
}

// Remove removes the emptied group in every hierarchy.
func (g *Group) Remove() error {
	errs := []error{removeTree(g.Dir())}
	for _, point := range g.tree.points(taskControllers) {
		errs = append(errs, removeTree(filepath.Join(point, g.rel)))
	}
	return errors.Join(errs...)
}

// removeTree removes a group and those below it: a task may have made some. A group stays busy for a moment after its
// last process was reaped.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "remove", "cgroup "+dir)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || gone(err) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || wait > time.Second {
			return fault.WithHint(fault.Wrap(err, fault.Busy, "remove", "cgroup "+dir),
				"still there: "+strings.Join(holders(dir), ", "))
		}
		time.Sleep(wait)
	}
}

// gone is how the kernel speaks of a group that was removed.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// OOMKills counts the processes of the group that the kernel killed for the memory limit.
func (g *Group) OOMKills() int64 {
	if n, ok := g.value(g.TaskLeaf(), "memory.events", "oom_kill"); ok {
		return n
	}
	n, _ := g.value(filepath.Join(g.tree.V1["memory"], g.leafRel()), "memory.oom_control", "oom_kill")
	return n
}

// value reads one number: the whole file with an empty key, else the line that begins with key.
func (g *Group) value(dir, file, key string) (int64, bool) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if key == "" && len(f) == 1 || len(f) == 2 && f[0] == key {
			n, err := strconv.ParseInt(f[len(f)-1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

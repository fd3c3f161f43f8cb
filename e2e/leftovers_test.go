package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// leftovers names what of a machine whose agent has been stopped is still in the world.
func leftovers(m *machine) []string {
	var out []string
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(m.root))
	if err != nil {
		return []string{err.Error()}
	}
	for _, mount := range mounts {
		out = append(out, fmt.Sprintf("mount %s (%s)", mount.Mountpoint, mount.FSType))
	}
	for dev, file := range loopDevices(m.root) {
		out = append(out, "loop device "+dev+" on "+file)
	}
	for _, p := range processesOf(m.root) {
		out = append(out, p.String())
	}
	for _, file := range []string{m.socket(), m.socket() + ".lock"} {
		if _, err := os.Lstat(file); err == nil {
			out = append(out, "file "+file)
		}
	}
	// Of a volume that is nowhere, no directory is left beneath the plugin's base.
	for _, pattern := range []string{"csi/*/s/*", "csi/*/p/*"} {
		left, err := filepath.Glob(filepath.Join(m.data, pattern))
		if err != nil {
			return append(out, err.Error())
		}
		for _, dir := range left {
			out = append(out, "directory or file "+dir)
		}
	}
	return append(out, cgroups(m)...)
}

// cgroups that are named after an alloc of the machine.
func cgroups(m *machine) []string {
	dirs, err := filepath.Glob(filepath.Join(m.data, "alloc", "*"))
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil || !d.IsDir() {
			return err
		}
		for _, alloc := range dirs {
			if strings.Contains(d.Name(), filepath.Base(alloc)) {
				out = append(out, "cgroup "+path)
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return out
}

// loopDevices gives the backing file of each loop device on a file beneath dir.
func loopDevices(dir string) map[string]string {
	out := map[string]string{}
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is well-formed
	for _, f := range files {
		b, err := os.ReadFile(f)
		if file := strings.TrimSpace(string(b)); err == nil && strings.HasPrefix(file, dir+"/") {
			out["/dev/"+filepath.Base(filepath.Dir(filepath.Dir(f)))] = file
		}
	}
	return out
}

// process is a living one.
type process struct {
	pid    int
	args   []string
	env    map[string]string
	cgroup string
}

func (p process) String() string {
	return fmt.Sprintf("process %d: %s", p.pid, strings.Join(p.args, " "))
}

// processesOf returns the processes that have dir in their arguments or their environment, or that are in the cgroup of
// an alloc with a directory in it. Some programs overwrite their environment with a title.
func processesOf(dir string) []process {
	var allocs []string
	for _, pattern := range []string{"*/alloc/*-*", "*/*/alloc/*-*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
		allocs = append(allocs, found...)
	}
	return processes(func(p process) bool {
		for _, a := range allocs {
			if strings.Contains(p.cgroup, filepath.Base(a)) {
				return true
			}
		}
		if p.pid == os.Getpid() {
			return false
		}
		for _, a := range p.args {
			if strings.Contains(a, dir+"/") {
				return true
			}
		}
		for _, v := range p.env {
			if strings.Contains(v, dir+"/") {
				return true
			}
		}
		return false
	})
}

// processes returns the living processes that match, by their number.
func processes(match func(process) bool) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		panic(err) // a Linux without /proc
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // gone, a zombie, or the kernel's
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue
		}
		cgroup, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if err != nil {
			continue
		}
		p := process{
			pid:    pid,
			cgroup: string(cgroup),
			args:   strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00"),
			env:    map[string]string{},
		}
		for v := range strings.SplitSeq(string(environ), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			p.env[name] = value
		}
		if match(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

// pid waits for the one process of a task of an alloc that is its program: what has begun may be about to become it.
func (m *machine) pid(alloc, task string, arg string) int {
	m.t.Helper()
	var found []process
	what := fmt.Sprintf("a process of task %s of alloc %s with %q in its arguments", task, alloc, arg)
	m.eventually(what, func() bool {
		found = processesOfTask(alloc, task, arg)
		return len(found) > 0
	})
	return found[0].pid
}

func processesOfTask(alloc, task string, arg string) []process {
	return processes(func(p process) bool {
		return strings.Contains(p.cgroup, alloc+"/task-"+task+".") && slices.ContainsFunc(p.args, func(a string) bool {
			return strings.Contains(a, arg)
		})
	})
}

// sweep removes a machine's directory with all that a failed test may have left: its processes, mounts and loop
// devices.
func sweep(root string) error {
	for _, p := range processesOf(root) {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := unmountAll(root); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// unmountAll takes away the mounts beneath a directory, and the loop devices on files of it.
func unmountAll(root string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(root))
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	for _, mount := range mounts {
		if err := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", mount.Mountpoint, err)
		}
	}
	for dev := range loopDevices(root) {
		f, err := os.Open(dev)
		if err != nil {
			return err
		}
		if err := errors.Join(unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0), f.Close()); err != nil &&
			!errors.Is(err, unix.ENXIO) {
			return fmt.Errorf("free %s: %w", dev, err)
		}
	}
	return nil
}

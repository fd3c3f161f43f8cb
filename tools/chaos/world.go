package main

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

// process is a living one of this run.
type process struct {
	pid    int
	args   []string
	cgroup string
}

func (p process) String() string {
	return fmt.Sprintf("process %d: %s", p.pid, strings.Join(p.args, " "))
}

// processes returns those that have the machine's directory in their arguments or are in the cgroup of one of its
// allocs, but for this one itself.
func (m *machine) processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	allocs, err := m.allocDirs()
	if err != nil {
		return nil, err
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err1 := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		cgroup, err2 := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if err1 != nil || err2 != nil || len(cmdline) == 0 {
			continue // gone, a zombie, or the kernel's
		}
		p := process{
			pid:    pid,
			args:   strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00"),
			cgroup: string(cgroup),
		}
		named := slices.ContainsFunc(p.args, func(a string) bool { return strings.Contains(a, m.root+"/") })
		inside := slices.ContainsFunc(allocs, func(id string) bool { return strings.Contains(p.cgroup, id) })
		if named || inside {
			out = append(out, p)
		}
	}
	return out, nil
}

// allocDirs are the ids of the allocs that have a directory.
func (m *machine) allocDirs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(m.data, "alloc"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// shim finds the process that holds the tasks of an alloc; 0: there is none.
func (m *machine) shim(alloc string) (int, error) {
	return m.pid(func(p process) bool {
		return p.args[0] == "berth-shim" && slices.Contains(p.args, alloc)
	})
}

// task finds the process of an alloc's task; 0: there is none.
func (m *machine) task(alloc string) (int, error) {
	return m.pid(func(p process) bool { return strings.Contains(p.cgroup, alloc+"/task-") })
}

// plugin finds the storage plugin's process; 0: there is none.
func (m *machine) plugin() (int, error) {
	return m.pid(func(p process) bool { return len(p.args) > 2 && p.args[1] == "plugin" && p.args[2] == localCSI })
}

func (m *machine) pid(match func(process) bool) (int, error) {
	all, err := m.processes()
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if match(p) {
			return p.pid, nil
		}
	}
	return 0, nil
}

// killProcess ends one that may have ended.
func killProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// loops gives the loop devices on files of the machine, with their files.
func (m *machine) loops() (map[string]string, error) {
	out := map[string]string{}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if file := strings.TrimSpace(string(b)); err == nil && strings.HasPrefix(file, m.root+"/") {
			out["/dev/"+filepath.Base(filepath.Dir(filepath.Dir(f)))] = file
		}
	}
	return out, nil
}

// list returns what matches patterns below the data_dir.
func (m *machine) list(patterns ...string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(m.data, p))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// left names everything that a machine on which nothing is to be any more still has.
func (m *machine) left() ([]string, error) {
	var out []string
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(m.root))
	if err != nil {
		return nil, err
	}
	for _, mount := range mounts {
		out = append(out, fmt.Sprintf("mount %s (%s)", mount.Mountpoint, mount.FSType))
	}
	devices, err := m.loops()
	if err != nil {
		return nil, err
	}
	for dev, file := range devices {
		out = append(out, "loop device "+dev+" on "+file)
	}
	processes, err := m.processes()
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		out = append(out, p.String())
	}
	files, err := m.list("csi/*/s/*", "csi/*/p/*", "csi/sock/*", "shim/*.sock", "volumes/volumes/*",
		"volumes/snapshots/*")
	for _, f := range files {
		out = append(out, "file "+f)
	}
	dirs, err2 := m.forgotten()
	groups, err3 := m.cgroups()
	return slices.Concat(out, dirs, groups), errors.Join(err, err2, err3)
}

// forgotten are the directories of allocs but for that of the storage plugin's, which the next agent goes on with.
func (m *machine) forgotten() (out []string, err error) {
	dirs, err := m.allocDirs()
	for _, id := range dirs {
		if m.seen[id] {
			out = append(out, "directory of alloc "+id)
		}
	}
	return out, err
}

// cgroups are those that tasks of this run were in.
func (m *machine) cgroups() ([]string, error) {
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil || !d.IsDir() {
			return err
		}
		for id := range m.seen {
			if strings.Contains(d.Name(), id) {
				out = append(out, "cgroup "+path)
				return fs.SkipDir
			}
		}
		return nil
	})
	return out, err
}

// discard removes the directory with all that a failed run may have left in the world.
func (m *machine) discard(keep bool) error {
	err := m.kill()
	processes, err2 := m.processes()
	err = errors.Join(err, err2)
	for _, p := range processes {
		err = errors.Join(err, killProcess(p.pid))
	}
	mounts, err2 := mountinfo.GetMounts(mountinfo.PrefixFilter(m.root))
	err = errors.Join(err, err2)
	slices.Reverse(mounts)
	for _, mount := range mounts {
		if err2 := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH); !errors.Is(err2, unix.EINVAL) {
			err = errors.Join(err, err2)
		}
	}
	devices, err2 := m.loops()
	err = errors.Join(err, err2)
	for dev := range devices {
		err = errors.Join(err, freeLoop(dev))
	}
	if keep {
		say("kept: %s", m.root)
		return err
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(m.root)
}

func freeLoop(dev string) error {
	f, err := os.Open(dev)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("free %s: %w", dev, err)
	}
	return nil
}

// Package holders owns the helper's role of finding out who holds a block device or a mount: it asks the kernel's table
// of processes, in a process of its own, because each look at a device, a file or a memory of others may take for ever.
package holders

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MinArgs is how many arguments Run takes at least: what is asked, the device, its sequence number.
const MinArgs = 3

// most is how many holders are named.
const most = 32

// Run looks and writes what it finds, each finding at once, so that one who is killed has said what it knew:
//
//	device absent|other|free|held    if a device was asked about
//	holder PID COMMAND NAMESPACE CGROUP HOW    all but the number quoted as in Go
//	all    nobody was left out
//
// args are "probe" or "scan"; the device as MAJOR:MINOR, or nothing; its sequence number, 0 if it is not known; and
// paths at and beneath which mounts are held. A probe names no holders.
func Run(out io.Writer, args []string) error {
	s := &search{
		out:    out,
		device: args[1],
		paths:  args[3:],
		read:   map[string]bool{},
		ids:    map[uint64]bool{},
		said:   map[string]bool{},
	}
	held := false
	if s.device != "" {
		seq, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return err
		}
		state, err := probe(s.device, seq)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "device", state); err != nil {
			return err
		}
		if held = state == heldDevice; !held {
			s.device = "" // whoever uses what has its number now is none of its holders
		}
	}
	if args[0] == "scan" && (held || len(s.paths) > 0) {
		if err := s.scan(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, "all")
	return err
}

// search is one look at all processes.
type search struct {
	out    io.Writer
	device string   // every mount and every file of it is held; empty: none
	paths  []string // of the node's own namespace
	own    string   // that namespace
	mounts []mount  // there, at and beneath the paths

	read  map[string]bool // tables of mounts that were read, by namespace and root
	ids   map[uint64]bool // of the mounts that are meant, in all namespaces
	said  map[string]bool
	count int
}

// mount is a line of a table of mounts.
type mount struct {
	id     uint64
	device string // major:minor
	root   string // within the file system
	path   string
}

func (s *search) scan() error {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	s.own = own
	table, err := readMounts("self")
	if err != nil {
		return err
	}
	for _, m := range table {
		beneath := slices.ContainsFunc(s.paths, func(p string) bool {
			return m.path == p || strings.HasPrefix(m.path, p+"/")
		})
		if beneath {
			s.mounts = append(s.mounts, m)
		}
		if beneath || m.device == s.device {
			s.ids[m.id] = true
		}
		if !beneath && m.device == s.device {
			if err := s.say(0, "", "", "", "mounted at "+m.path); err != nil {
				return err
			}
		}
	}
	if s.device == "" && len(s.mounts) == 0 {
		return nil // nothing is there that anybody could hold
	}
	s.read[own+" /"] = true
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids { // first all namespaces: a file may be open on a mount of another one
		if err := s.namespace(pid); err != nil {
			return err
		}
	}
	for _, pid := range pids {
		if err := s.files(pid); err != nil {
			return err
		}
	}
	return nil
}

// namespace looks at the mounts that a process sees. One that has gone meanwhile holds nothing.
func (s *search) namespace(pid int) error {
	name := strconv.Itoa(pid)
	ns, err := os.Readlink("/proc/" + name + "/ns/mnt")
	if err != nil {
		return nil
	}
	root, err := os.Readlink("/proc/" + name + "/root")
	if err != nil {
		return nil
	}
	group := cgroupOf(name)
	if seen := ns + " " + root; !s.read[seen] {
		table, err := readMounts(name)
		if err != nil {
			return nil
		}
		s.read[seen] = true
		for _, m := range table {
			if !s.means(m) {
				continue
			}
			s.ids[m.id] = true
			if !s.said[ns] {
				s.said[ns] = true
				if err := s.inNamespace(pid, ns, group, m.path); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if !s.said[ns] || s.said[ns+" "+group] {
		return nil
	}
	return s.inNamespace(pid, ns, group, "")
}

// inNamespace names a process that keeps a namespace with a mount alive: the first of each control group.
func (s *search) inNamespace(pid int, ns, group, path string) error {
	if ns == s.own {
		return nil
	}
	s.said[ns+" "+group] = true
	how := "it keeps that namespace"
	if path != "" {
		how = "mounted there at " + path
	}
	return s.say(pid, commandOf(pid), ns, group, how)
}

// means reports whether a mount of another namespace, or of another root, is one that is asked about, or a copy of it.
func (s *search) means(m mount) bool {
	return s.device != "" && m.device == s.device || slices.ContainsFunc(s.mounts, func(o mount) bool {
		return o.device == m.device && o.root == m.root && o.path == m.path
	})
}

// files looks at what a process has open, where it stands, and what it maps. Asking for attributes with
// AT_STATX_DONT_SYNC makes file systems answer from memory.
func (s *search) files(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	if how := s.uses(dir+"/cwd", "its working directory is there"); how != "" {
		return s.process(pid, how)
	}
	if how := s.uses(dir+"/root", "its root is there"); how != "" {
		return s.process(pid, how)
	}
	entries, _ := os.ReadDir(dir + "/fd") // a process that has gone has none
	for _, e := range entries {
		if how := s.uses(dir+"/fd/"+e.Name(), "a file is open"); how != "" {
			return s.process(pid, how)
		}
	}
	if s.maps(dir) {
		return s.process(pid, "a file is mapped into its memory")
	}
	return nil
}

func (s *search) uses(link, how string) string {
	var st unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_MNT_ID
	if err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, mask, &st); err != nil {
		return ""
	}
	switch {
	case st.Mask&unix.STATX_MNT_ID != 0 && s.ids[st.Mnt_id]:
		return how
	case s.device == "":
		return ""
	case number(st.Dev_major, st.Dev_minor) == s.device:
		return how
	case st.Mode&unix.S_IFMT == unix.S_IFBLK && number(st.Rdev_major, st.Rdev_minor) == s.device:
		return "the device is open"
	}
	return ""
}

// maps reports whether a process has a file of the device in its memory.
func (s *search) maps(dir string) bool {
	major, minor, ok := strings.Cut(s.device, ":")
	if !ok {
		return false
	}
	ma, _ := strconv.ParseUint(major, 10, 32) // probe has read them
	mi, _ := strconv.ParseUint(minor, 10, 32)
	data, _ := os.ReadFile(dir + "/maps")
	// 7f31-7f32 r--p 00000000 07:03 131 /a/file
	return strings.Contains(string(data), fmt.Sprintf(" %02x:%02x ", ma, mi))
}

func (s *search) process(pid int, how string) error {
	name := strconv.Itoa(pid)
	ns, err := os.Readlink("/proc/" + name + "/ns/mnt")
	if err != nil {
		return nil
	}
	if ns == s.own {
		ns = ""
	}
	return s.say(pid, commandOf(pid), ns, cgroupOf(name), how)
}

// say writes one holder; of those beyond the bound it is not said that all were named.
func (s *search) say(pid int, command, ns, group, how string) error {
	if s.count++; s.count > most {
		return fmt.Errorf("more than %d hold it", most)
	}
	_, err := fmt.Fprintf(s.out, "holder %d %s %s %s %s\n", pid, strconv.Quote(command), strconv.Quote(ns),
		strconv.Quote(group), strconv.Quote(how))
	return err
}

func number(major, minor uint32) string { return fmt.Sprintf("%d:%d", major, minor) }

// commandOf is the name of a process. Its command line is not read: it may hold secrets, and reading it waits for the
// process's memory.
func commandOf(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(data), "\n")
}

// cgroupOf is the group of a process in the unified hierarchy.
func cgroupOf(pid string) string {
	data, _ := os.ReadFile("/proc/" + pid + "/cgroup")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return rest
		}
	}
	return ""
}

// readMounts reads the table of mounts that a process sees.
func readMounts(pid string) (out []mount, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		// 36 35 98:0 /root /mount/point options …
		part := strings.Fields(line)
		if len(part) < 6 {
			continue
		}
		id, err := strconv.ParseUint(part[0], 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, mount{
			id:     id,
			device: part[2],
			root:   unescape.Replace(part[3]),
			path:   unescape.Replace(part[4]),
		})
	}
	return out, nil
}

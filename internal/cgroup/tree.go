// Package cgroup owns the control groups of tasks: where they lie, what limits are written into them, how they are
// killed, watched and removed. The shim uses it for its tasks, client/shim for what a dead shim left; nobody else.
//
// Every task has a group in the v2 tree, <mount>/<slice>/<alloc>/<name>, with two leaves: "helper" for the init stage,
// which must not count against the task's limits, and "task". The v2 tree tracks and kills on hybrid nodes too, where
// it offers no controller; limits then go into groups of the same paths in the v1 hierarchies, which have no "helper".
// Limits are written into the leaf "task" and into the group above it: the task sees its leaf as the root of all, and a
// task that came to write there could not lift what holds above.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Tree is what the node offers.
type Tree struct {
	V2          string            // mount point of the v2 tree
	Controllers []string          // that the v2 tree offers
	V1          map[string]string // controller to the mount point of its v1 hierarchy
	table       string            // the mount table's lines about the hierarchies
	ops         ops
}

// ops are the operations that change the tree, apart so that a test can record them.
type ops interface {
	mkdir(path string) error
	write(path, value string) error
	exists(path string) bool
}

// variable is the environment variable by which whoever knows the hierarchies describes them to a program that it
// starts.
const variable = "BERTH_CGROUP_MOUNTS"

// Setting is an environment variable for a program that calls Given.
func (t *Tree) Setting() string { return variable + "=" + t.table }

// Given is Discover without reading the mount table, where whoever started this program gave it a Setting: on a node
// with many allocs that table is long, and the shim of each would read it while its tasks wait.
func Given() (*Tree, error) {
	if table := os.Getenv(variable); table != "" {
		return offers(parse(table))
	}
	return Discover()
}

// Discover looks for the node's hierarchies.
func Discover() (*Tree, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the mount table")
	}
	return offers(parse(string(table)))
}

// offers completes a tree by what its v2 hierarchy offers.
func offers(t *Tree) (*Tree, error) {
	if t.V2 == "" {
		return nil, &fault.Error{
			Kind:    fault.Unsupported,
			Op:      "find",
			Subject: "the cgroup v2 tree",
			Err:     errors.New("it is not mounted"),
			Hint: "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified; 'ip netns exec' hides it from what it runs, and " +
				"nsenter --net=… does not",
		}
	}
	offered, err := os.ReadFile(filepath.Join(t.V2, "cgroup.controllers"))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the cgroup v2 controllers")
	}
	t.Controllers = strings.Fields(string(offered))
	return t, nil
}

// parse finds hierarchies in a mount table. The first mount of a hierarchy wins: later ones are binds for containers.
func parse(table string) *Tree {
	t := &Tree{V1: map[string]string{}, ops: kernel{}}
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		if tail[0] == "cgroup" || tail[0] == "cgroup2" {
			t.table += line
		}
		point := unescape(fields[4])
		switch tail[0] {
		case "cgroup2":
			if t.V2 == "" {
				t.V2 = point
			}
		case "cgroup":
			for opt := range strings.SplitSeq(tail[2], ",") {
				if _, known := t.V1[opt]; !known && (slices.Contains(v1Controllers, opt) || opt == systemd) {
					t.V1[opt] = point
				}
			}
		}
	}
	return t
}

// v1Controllers are the v1 hierarchies in which a shim leaves the agent's group; tasks have groups of their own only in
// taskControllers, those that limit them.
var (
	v1Controllers   = []string{"cpu", "cpuacct", "cpuset", "memory", "pids", blkio}
	taskControllers = []string{"cpu", "cpuset", "memory", "pids", blkio}
)

// systemd's own v1 hierarchy: a shim leaves the agent's unit there, or it would be stopped with it.
const systemd = "name=systemd"

// unescape undoes the mount table's octal escapes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Has reports whether a controller is offered by either version.
func (t *Tree) Has(controller string) bool {
	return slices.Contains(t.Controllers, controller) || t.V1[controller] != ""
}

// onV2 reports whether limits of a controller are written into the v2 tree.
func (t *Tree) onV2(controller string) bool {
	return slices.Contains(t.Controllers, controller) && t.V1[controller] == ""
}

// AllocDir is the directory of an alloc's groups, relative to a hierarchy's mount point. Its last element names the
// same alloc: a UUID and a hash stay what they are.
func AllocDir(slice, alloc string) string {
	if ids.IsUUID(alloc) || isHash(alloc) {
		return filepath.Join(slice, alloc)
	}
	return filepath.Join(slice, ids.Segment(alloc))
}

// isHash reports whether s has the form of ids.Segment.
func isHash(s string) bool { return len(s) == 24 && strings.Trim(s, "0123456789abcdef") == "" }

// Alloc returns the group that holds all groups of an alloc, its shim's too.
func (t *Tree) Alloc(slice, alloc string) *Group {
	return &Group{tree: t, rel: AllocDir(slice, alloc)}
}

// Allocs lists the names of the allocs that have groups in a slice, those of other agents too.
func (t *Tree) Allocs(slice string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(t.V2, slice))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "cgroup "+filepath.Join(t.V2, slice))
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Group returns the group of a process; it need not exist.
func (t *Tree) Group(slice, alloc, name string) *Group {
	return &Group{tree: t, rel: filepath.Join(AllocDir(slice, alloc), segment(name))}
}

// At returns the group whose directory in the v2 tree is dir, as Dir said it earlier.
func (t *Tree) At(dir string) (*Group, error) {
	rel, err := filepath.Rel(t.V2, dir)
	if err != nil || !filepath.IsLocal(rel) || strings.Count(rel, "/") != 2 {
		return nil, fault.New(fault.Invalid, "find", "cgroup "+strconv.Quote(dir),
			"it is not a task's group in the tree at "+t.V2)
	}
	return &Group{tree: t, rel: rel}, nil
}

// Tasks maps the names of an alloc's processes to their groups; where a name was hashed, the hash.
func (t *Tree) Tasks(slice, alloc string) (map[string]*Group, error) {
	dir := AllocDir(slice, alloc)
	entries, err := os.ReadDir(filepath.Join(t.V2, dir))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "cgroup "+filepath.Join(t.V2, dir))
	}
	out := map[string]*Group{}
	for _, e := range entries {
		kind, name, named := strings.Cut(e.Name(), "-")
		if named && (kind == "task" || kind == "hash") {
			out[name] = &Group{tree: t, rel: filepath.Join(dir, e.Name())}
		}
	}
	return out, nil
}

// segment keeps the name of a process readable where it is harmless, and hashes it otherwise. The prefix keeps it apart
// from the shim's own leaf.
func segment(name string) string {
	harmless := len(name) <= 100
	for i := 0; i < len(name) && harmless; i++ {
		c := name[i]
		harmless = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
			c == '.'
	}
	if harmless {
		return "task-" + name
	}
	return "hash-" + ids.Segment(name)
}

// ShimLeaf makes the group of an alloc's shim, which limits nothing, and returns its directory in the v2 tree.
func (t *Tree) ShimLeaf(slice, alloc string) (string, error) {
	dir := filepath.Join(t.V2, AllocDir(slice, alloc), "shim")
	return dir, t.makeAll(t.V2, filepath.Join(AllocDir(slice, alloc), "shim"))
}

// ShimProcesses lists the pids in the group of an alloc's shim.
func (t *Tree) ShimProcesses(slice, alloc string) []string {
	return processes(filepath.Join(t.V2, AllocDir(slice, alloc), "shim"))
}

// VisitShim makes the v1 groups of an alloc's shim and visits them, so that neither the limits of the agent's unit nor
// its stop reach a shim forked there. A hierarchy in which the agent's own group is not visible is left out. The way
// back is read here: of a goroutine that locks its thread only later, it may be where another thread was visiting.
func (t *Tree) VisitShim(slice, alloc string) (*Visit, error) {
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the agent's cgroups")
	}
	join, back := t.leaves(string(own))
	for i, point := range join {
		if err := t.makeAll(point, AllocDir(slice, alloc)); err != nil {
			return nil, err
		}
		join[i] = filepath.Join(point, AllocDir(slice, alloc), "tasks")
	}
	v, err := Begin(join, back)
	if err != nil {
		return nil, errors.Join(err, v.End())
	}
	return v, nil
}

// leaves are the hierarchies in which a shim leaves the group of the agent, which own tells, and the ways back there.
func (t *Tree) leaves(own string) (points, back []string) {
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		controller, _, _ := strings.Cut(f[1], ",")
		point := t.V1[controller]
		home := filepath.Join(point, f[2], "tasks")
		if point == "" || point == t.V1["cpuset"] || !t.ops.exists(home) {
			continue // a new cpuset group is empty and cannot be joined; it limits nobody here
		}
		if f[1] == blkio && f[2] == "/" {
			continue // the root bounds no device; a group comes with the first task that has bounds
		}
		points, back = append(points, point), append(back, home)
	}
	return points, back
}

// Visit is the stay of a thread, which its goroutine has locked, in v1 groups, so that what it forks is born there.
type Visit struct{ home []int }

// self is written for the thread that writes. By a number, the same thread's too, the kernel stops every fork of the
// machine until a grace period is over, which takes ten milliseconds; and so it does to move a process.
const self = "0"

// Begin moves the calling thread into v1 groups. What was begun is returned also with an error.
func Begin(join, back []string) (*Visit, error) {
	v := &Visit{}
	for i, path := range join {
		fd, err := unix.Open(back[i], unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return v, fault.Wrap(err, fault.Internal, "open", back[i])
		}
		v.home = append(v.home, fd)
		if err := (kernel{}).write(path, self); err != nil {
			return v, fault.Wrap(err, fault.Internal, "join", "cgroup "+path)
		}
	}
	return v, nil
}

// Files are the descriptors of the way back: a thread that takes a table of its own must keep them.
func (v *Visit) Files() []uintptr {
	var out []uintptr
	for _, fd := range v.home {
		out = append(out, uintptr(fd))
	}
	return out
}

// End takes the calling thread, which must be the one that began, back, and closes what is open of the way.
func (v *Visit) End() error {
	var errs []error
	for _, fd := range v.home {
		_, err := unix.Write(fd, []byte(self))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, v.Close())...)
}

// Close closes the way back, for a thread that does not go it: in the table of whoever calls.
func (v *Visit) Close() error {
	var errs []error
	for _, fd := range v.home {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// RemoveAlloc removes what is left of an alloc's groups when no process is in them. Others may be using the slice, so
// that it stays is no error.
func (t *Tree) RemoveAlloc(slice, alloc string) error {
	var errs []error
	for _, point := range append(t.points(append(slices.Clone(v1Controllers), systemd)), t.V2) {
		errs = append(errs, removeTree(filepath.Join(point, AllocDir(slice, alloc))))
		if err := unix.Rmdir(filepath.Join(point, slice)); err != nil && !errors.Is(err, unix.EBUSY) &&
			!errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, &os.PathError{Op: "rmdir", Path: filepath.Join(point, slice), Err: err})
		}
	}
	return errors.Join(errs...)
}

// points lists the distinct mount points of v1 controllers; several may share one.
func (t *Tree) points(controllers []string) []string {
	var out []string
	for _, c := range controllers {
		if p := t.V1[c]; p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// makeAll makes a directory and its parents below a mount point. Another shim may remove an emptied parent meanwhile.
func (t *Tree) makeAll(point, rel string) error {
	var err error
	for range 20 {
		path := point
		for part := range strings.SplitSeq(rel, "/") {
			path = filepath.Join(path, part)
			if err = t.ops.mkdir(path); err != nil {
				break
			}
		}
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return fault.WithHint(
		fault.Wrap(err, fault.Unsupported, "make", "cgroup "+strconv.Quote(filepath.Join(point, rel))),
		"the agent must be root and the cgroup tree writable")
}

// kernel is the real tree.
type kernel struct{}

func (kernel) mkdir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func (kernel) write(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(value))
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	return nil
}

func (kernel) exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }

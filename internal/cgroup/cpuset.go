package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// HasCpusets reports whether processes can be held to some cores at all.
func (t *Tree) HasCpusets() bool { return t.Has("cpuset") }

// Cpuset is the list of cores that the group's processes are held to; empty: to none.
func (g *Group) Cpuset() string {
	b, err := os.ReadFile(filepath.Join(g.cpusetLeaf(), "cpuset.cpus"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (g *Group) cpusetLeaf() string {
	if g.tree.onV2("cpuset") {
		return g.TaskLeaf()
	}
	return filepath.Join(g.tree.V1["cpuset"], g.leafRel())
}

// Confine holds the processes of a group that runs to some cores. A group that is gone has none to hold.
func (g *Group) Confine(cpus string) error {
	if !g.tree.ops.exists(g.TaskLeaf()) {
		return nil
	}
	err := g.confine(cpus)
	if err != nil && !g.tree.ops.exists(g.TaskLeaf()) {
		return g.Remove() // it ended meanwhile: what was made for it goes, too
	}
	return fault.Note(err, "hold to cores "+cpus, "cgroup "+g.Dir())
}

func (g *Group) confine(cpus string) error {
	s := setting{
		controller: "cpuset",
		v1:         "cpuset.cpus",
		v1Value:    cpus,
		v2:         "cpuset.cpus",
		v2Value:    cpus,
	}
	if g.tree.onV2("cpuset") {
		if err := g.enable([]setting{s}); err != nil {
			return err
		}
		return g.apply(s)
	}
	if err := g.cpusetParents(); err != nil {
		return err
	}
	// What is above can be neither smaller than what is below nor, before that is changed, as small as it will be.
	point := g.tree.V1["cpuset"]
	above := filepath.Join(point, g.rel)
	widest, err := os.ReadFile(filepath.Join(filepath.Dir(above), "cpuset.cpus"))
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "cpuset of "+filepath.Dir(above))
	}
	if err := g.tree.ops.write(filepath.Join(above, "cpuset.cpus"), strings.TrimSpace(string(widest))); err != nil {
		return fault.Wrap(err, fault.Internal, "widen", "cpuset of "+above)
	}
	if err := g.apply(s); err != nil {
		return err
	}
	return g.gather(filepath.Join(point, g.leafRel()))
}

// maxPasses is how often gather looks for processes that were forked meanwhile outside.
const maxPasses = 32

// gather moves the processes of the group into a v1 group that was made after they were.
func (g *Group) gather(leaf string) error {
	for range maxPasses {
		inside := processes(leaf)
		moved := false
		for _, pid := range processes(g.TaskLeaf()) {
			if slices.Contains(inside, pid) {
				continue
			}
			err := g.tree.ops.write(filepath.Join(leaf, "cgroup.procs"), pid)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fault.Wrap(err, fault.Internal, "move", "process "+pid)
			}
			moved = true
		}
		if !moved {
			return nil
		}
	}
	return fault.New(fault.Internal, "move", "processes", "they fork faster than they can be moved")
}

// Package sharing owns on which cores the processes of a launcher run that have none of their own: those that run are
// moved when that changes, and those that start are put there. Only package shim imports it.
package sharing

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/cgroup"
	"berth/internal/client/cpuset"
)

// Cpusets are those of the tasks below a slice.
type Cpusets struct {
	tree  *cgroup.Tree
	slice string
	log   *slog.Logger
	mu    sync.Mutex
	now   cpuset.Shared
}

// New returns the cpusets of tasks that run wherever they like.
func New(tree *cgroup.Tree, slice string, log *slog.Logger) *Cpusets {
	return &Cpusets{tree: tree, slice: slice, log: log}
}

// Confine holds the tasks that run, and those that will, to what is shared.
func (c *Cpusets) Confine(s cpuset.Shared) error {
	if !c.tree.HasCpusets() {
		return fault.WithHint(
			fault.New(fault.Unsupported, "hold", "tasks to cores", "this node offers no cgroup controller for cpuset"),
			"ask for cpu, or boot with cgroup_enable=cpuset")
	}
	c.mu.Lock()
	c.now = s
	c.mu.Unlock()
	allocs, err := c.tree.Allocs(c.slice)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range allocs {
		groups, err := c.tree.Tasks(c.slice, name)
		errs = append(errs, err)
		for _, g := range groups {
			errs = append(errs, confine(g, name, s))
		}
	}
	return errors.Join(errs...)
}

// confine holds one task's processes to what is shared, unless it has cores of its own.
func confine(g *cgroup.Group, alloc string, s cpuset.Shared) error {
	has := g.Cpuset()
	for id, own := range s.Own {
		if filepath.Base(cgroup.AllocDir("", string(id))) == alloc && slices.Contains(own, has) {
			return nil
		}
	}
	cpus := s.Cores
	if cpus == "" {
		cpus = s.All
		if has == "" {
			return nil // it never was held to any
		}
	}
	if cpus == "" || cpus == has {
		return nil
	}
	return g.Confine(cpus)
}

// Place puts what is shared in place of no cores. What it returns is called when the task runs, or does not: it looks
// again, as what is shared may have changed meanwhile.
func (c *Cpusets) Place(alloc, name string, cpus *string) (settle func()) {
	if *cpus != "" {
		return func() {} // its own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	given := c.now.Cores
	*cpus = given
	return func() {
		c.mu.Lock()
		now := c.now
		c.mu.Unlock()
		if now.Cores == given {
			return
		}
		dir := filepath.Base(cgroup.AllocDir("", alloc))
		if err := confine(c.tree.Group(c.slice, alloc, name), dir, now); err != nil {
			c.log.Warn("a task may run on cores of others", logkey.Alloc, alloc, logkey.Error, err)
		}
	}
}

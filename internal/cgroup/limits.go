package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Limits are what the processes of a group may use.
type Limits struct {
	CPUShares int64
	MemoryMax int64 // bytes; 0: none
	MemoryLow int64 // bytes that the kernel tries to leave; 0: none
	Cpuset    string
	PIDs      int64 // processes and threads; 0: no limit
	// IO are bounds of block devices, one a device, as io.max takes them: "8:0 rbps=1048576 wiops=100".
	IO []string
	// Required: a limit without a controller on this node is an error; otherwise it is left out.
	Required bool
}

// Stats is a reading of what a group uses.
type Stats struct {
	CPUNanos, UserNanos, SystemNanos, ThrottledNanos int64
	RSS, Cache, Usage, Max                           int64
	PIDs                                             int64
}

// Create makes the group in every hierarchy and writes its limits. On failure nothing is left.
func (g *Group) Create(l Limits) error {
	err := g.create(l)
	if err == nil {
		return nil
	}
	return errors.Join(err, g.Remove())
}

func (g *Group) create(l Limits) error {
	if err := g.tree.makeAll(g.tree.V2, g.rel); err != nil {
		return err
	}
	settings, err := g.settings(l)
	if err != nil {
		return err
	}
	if err := g.enable(settings); err != nil {
		return err
	}
	for _, leaf := range []string{"helper", "task"} {
		if err := g.tree.makeAll(g.Dir(), leaf); err != nil {
			return err
		}
	}
	controllers := []string{"cpu", "memory", "pids"}
	if len(l.IO) > 0 {
		controllers = append(controllers, blkio)
	}
	for _, point := range g.tree.points(controllers) {
		if err := g.tree.makeAll(point, g.leafRel()); err != nil {
			return err
		}
	}
	if l.Cpuset != "" && g.tree.V1["cpuset"] != "" {
		if err := g.cpusetParents(); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if err := g.apply(s); err != nil {
			return err
		}
	}
	return nil
}

const tcpLimit = "memory.kmem.tcp.limit_in_bytes"

// setting is one limit, spelled for both versions.
type setting struct {
	controller string
	v1, v2     string // file; empty: this version has none
	v1Value    string
	v2Value    string
	v2Above    string // for the group above, where the init stage counts too; empty: the same
	optional   bool   // the file depends on the kernel's configuration
}

// settings turns limits into what is written, in order.
func (g *Group) settings(l Limits) ([]setting, error) {
	var out []setting
	add := func(s setting) error {
		if g.tree.Has(s.controller) {
			out = append(out, s)
			return nil
		}
		if !l.Required {
			return nil
		}
		return &fault.Error{
			Kind:    fault.Unsupported,
			Op:      "limit",
			Subject: "the task's " + s.controller,
			Err:     errors.New("this node offers no such cgroup controller"),
			Hint:    "enable it on the kernel's command line (cgroup_enable=" + s.controller + ")",
		}
	}
	var errs []error
	if l.CPUShares > 0 {
		shares := min(max(l.CPUShares, 2), 262144)
		errs = append(errs, add(setting{
			controller: "cpu",
			v1:         "cpu.shares",
			v1Value:    number(shares),
			v2:         "cpu.weight",
			v2Value:    number(weight(shares)),
		}))
	}
	if l.MemoryMax > 0 {
		top := number(l.MemoryMax)
		errs = append(errs, add(setting{
			controller: "memory",
			v1:         "memory.limit_in_bytes",
			v1Value:    top,
			v2:         "memory.max",
			v2Value:    top,
			v2Above:    number(l.MemoryMax + helperMemory),
		}))
		if g.tree.Has("memory") {
			// The first version counts the buffers of TCP, and with this limit those of UDP, apart.
			out = append(out, setting{
				controller: "memory",
				v1:         tcpLimit,
				v1Value:    top,
				optional:   true,
			}, setting{
				controller: "memory",
				v1:         "memory.memsw.limit_in_bytes",
				v1Value:    top,
				v2:         "memory.swap.max",
				v2Value:    "0",
				optional:   true,
			})
		}
	}
	if l.MemoryLow > 0 {
		low := number(l.MemoryLow)
		errs = append(errs, add(setting{
			controller: "memory",
			v1:         "memory.soft_limit_in_bytes",
			v1Value:    low,
			v2:         "memory.low",
			v2Value:    low,
		}))
	}
	if l.Cpuset != "" {
		errs = append(errs, add(setting{
			controller: "cpuset",
			v1:         "cpuset.cpus",
			v1Value:    l.Cpuset,
			v2:         "cpuset.cpus",
			v2Value:    l.Cpuset,
		}))
	}
	if l.PIDs > 0 {
		errs = append(errs, add(setting{
			controller: "pids",
			v1:         "pids.max",
			v1Value:    number(l.PIDs),
			v2:         "pids.max",
			v2Value:    number(l.PIDs),
			v2Above:    number(l.PIDs + helperPIDs),
		}))
	}
	bounds, err := g.tree.ioSettings(l)
	return append(out, bounds...), errors.Join(append(errs, err)...)
}

// enable offers the controllers that are needed to the group's leaves, level by level from the root.
func (g *Group) enable(settings []setting) error {
	var wanted []string
	for _, c := range []string{"cpuset", "cpu", "io", "memory", "pids"} {
		for _, s := range settings {
			if s.controller == c && g.tree.onV2(c) {
				wanted = append(wanted, "+"+c)
				break
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	dir := g.tree.V2
	levels := append([]string{""}, strings.Split(g.rel, "/")...)
	for _, level := range levels {
		dir = filepath.Join(dir, level)
		if err := g.tree.ops.write(filepath.Join(dir, "cgroup.subtree_control"),
			strings.Join(wanted, " ")); err != nil {
			return fault.WithHint(fault.Wrap(err, fault.Unsupported, "enable", "cgroup controllers in "+dir),
				"a group that holds processes itself cannot pass controllers on: in a container, give the agent its "+
					"own cgroup")
		}
	}
	return nil
}

// Room for the init stage in the group above a task's: the helper program with its threads.
const (
	helperMemory = 64 << 20
	helperPIDs   = 64
)

// apply writes a limit into the task's leaf, and then above it: a v1 cpuset can only be made as small as those below.
func (g *Group) apply(s setting) error {
	file := s.v2
	leaf := filepath.Join(g.TaskLeaf(), s.v2)
	value := s.v2Value
	above := s.v2Above
	if !g.tree.onV2(s.controller) {
		file = s.v1
		leaf = filepath.Join(g.tree.V1[s.controller], g.leafRel(), s.v1)
		value = s.v1Value
		above = ""
	}
	if file == "" {
		return nil
	}
	if s.optional && !g.tree.ops.exists(leaf) {
		return nil
	}
	if above == "" {
		above = value
	}
	err := g.tree.ops.write(leaf, value)
	if err == nil {
		dir, file := filepath.Split(leaf)
		err = g.tree.ops.write(filepath.Join(filepath.Dir(filepath.Clean(dir)), file), above)
	}
	return fault.Wrap(err, fault.Invalid, "limit", "the task's "+s.controller)
}

// cpusetParents fills in what a new v1 cpuset group lacks: without CPUs and memory nodes nothing can join it.
func (g *Group) cpusetParents() error {
	point := g.tree.V1["cpuset"]
	if err := g.tree.makeAll(point, g.leafRel()); err != nil {
		return err
	}
	dir := point
	for part := range strings.SplitSeq(g.leafRel(), "/") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			above, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return fault.Wrap(err, fault.Internal, "read", "cpuset of "+dir)
			}
			own, err := os.ReadFile(filepath.Join(dir, part, file))
			if err != nil {
				return fault.Wrap(err, fault.Internal, "read", "cpuset of "+dir)
			}
			if strings.TrimSpace(string(own)) != "" {
				continue
			}
			if err := g.tree.ops.write(filepath.Join(dir, part, file), strings.TrimSpace(string(above))); err != nil {
				return err
			}
		}
		dir = filepath.Join(dir, part)
	}
	return nil
}

// weight converts v1 shares (2 to 262144) to a v2 weight (1 to 10000), keeping the ratio of two tasks roughly.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Stats reads the group's usage. What the node does not account stays zero.
func (g *Group) Stats() Stats {
	var s Stats
	leaf := g.TaskLeaf()
	usec := func(key string) int64 { n, _ := g.value(leaf, "cpu.stat", key); return n * 1000 }
	s.CPUNanos = usec("usage_usec")
	s.UserNanos = usec("user_usec")
	s.SystemNanos = usec("system_usec")
	s.ThrottledNanos = usec("throttled_usec")
	if cpu := g.tree.V1["cpu"]; cpu != "" {
		s.ThrottledNanos, _ = g.value(filepath.Join(cpu, g.rel), "cpu.stat", "throttled_time")
	}
	dir, names := leaf, [4]string{"anon", "file", "memory.current", "memory.peak"}
	if v1 := g.tree.V1["memory"]; v1 != "" {
		dir, names = filepath.Join(v1, g.rel),
			[4]string{"total_rss", "total_cache", "memory.usage_in_bytes", "memory.max_usage_in_bytes"}
	}
	s.RSS, _ = g.value(dir, "memory.stat", names[0])
	s.Cache, _ = g.value(dir, "memory.stat", names[1])
	s.Usage, _ = g.value(dir, names[2], "")
	s.Max, _ = g.value(dir, names[3], "")
	s.PIDs = int64(len(processes(leaf)))
	return s
}

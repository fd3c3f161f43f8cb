package exec

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/port/users"
)

// attributeSockets is of nodes whose kernel keeps tasks from sockets without a file that are not their own.
const attributeSockets = "driver.exec.own_sockets"

// attributeWall is "1" where Landlock keeps tasks from changing files that are not theirs, beside what is mounted how.
const attributeWall = "driver.exec.landlock"

// attributeDevices is "1" where the kernel keeps tasks from device nodes that they were not given, however they came by
// them, and from writing to those that are for reading.
const attributeDevices = "driver.exec.device_filter"

// attributeUsers is of nodes whose tasks have user namespaces.
const attributeUsers = "driver.exec.user_namespaces"

// ParseIDs reads Config.IDs: one range of numbers that are no users of the node. fault.Invalid: it is none.
func ParseIDs(text string) (*driver.IDRange, error) {
	ranges, err := users.ParseRanges(text)
	if err != nil {
		return nil, err
	}
	bad := func(what string) error {
		return fault.WithHint(fault.New(fault.Invalid, "", strconv.Quote(text), what),
			`give one range of numbers that nobody else on the node has, such as "1000000-1999999"`)
	}
	if len(ranges) != 1 {
		return nil, bad("it is not one range")
	}
	out := driver.IDRange{First: ranges[0].First, Last: ranges[0].Last}
	switch {
	case out.First < driver.IDsPerAlloc:
		return nil, bad("it has numbers below 65,536, which are users of the node")
	case out.Last == math.MaxUint32:
		return nil, bad("it has number 4,294,967,295, which stands for nobody at all")
	case out.Allocs() == 0:
		return nil, bad("it is too short: each alloc takes 65,536 numbers")
	}
	return &out, nil
}

// meaningful are the capabilities that mean something within a user namespace that owns no other: the network, the
// clock, devices and mounts are the node's. The rest of what a task may have is kept off it, or means nothing.
var meaningful = []string{"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "lease", "setfcap",
	"setgid", "setpcap", "setuid", "sys_chroot", "sys_nice", "sys_ptrace", "sys_resource"}

// ownUsers refuses what a task with users of its own cannot have, rather than to start it without.
func ownUsers(add []string, binds []driver.Mount) error {
	for _, c := range plain(add) {
		if c != all && slices.Contains(AllCapabilities, c) && !slices.Contains(meaningful, c) {
			return fault.WithHint(
				fault.New(fault.Unsupported, "", "config.cap_add",
					"capability "+strconv.Quote(c)+" means nothing on this node: its tasks have user namespaces"),
				"leave it out, or have the task run on another node: a constraint on ${attr."+attributeUsers+
					"} with the operator is_not_set finds one; here cap_add takes "+strings.Join(meaningful, ", "))
		}
	}
	for _, m := range binds {
		if m.Propagation != "" && m.Propagation != "private" {
			return fault.WithHint(
				fault.New(fault.Unsupported, "", "mount "+strconv.Quote(m.Target),
					"propagation "+strconv.Quote(m.Propagation)+" is not for tasks with user namespaces: what the "+
						"node mounts later has other numbers of users"),
				"leave propagation_mode out, or have the task run on another node: a constraint on ${attr."+
					attributeUsers+"} with the operator is_not_set finds one")
		}
	}
	return nil
}

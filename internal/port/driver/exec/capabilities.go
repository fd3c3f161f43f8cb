package exec

import (
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/users"
)

// DefaultCapabilities are what root of a task keeps. MKNOD is not among them: without a filter on devices it would give
// the task the node's disks; NET_RAW neither: tasks share the node's network.
var DefaultCapabilities = []string{"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill",
	"net_bind_service", "setfcap",
	"setgid", "setpcap", "setuid", "sys_chroot"}

// AllCapabilities are what a node-role storage plugin gets.
var AllCapabilities = []string{"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid",
	"setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio",
	"sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time",
	"sys_tty_config", "mknod",
	"lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm",
	"block_suspend", "audit_read",
	"perfmon", "bpf", "checkpoint_restore"}

// harmless are those that a user other than root cannot become root by, or read what it may not: no program of its own
// is set-user-id, its processes are in a namespace of pids.
var harmless = []string{"audit_write", "kill", "net_bind_service", "sys_chroot"}

// refuseRoot refuses what would make root of another user, where nobody has said that tasks may have it.
func refuseRoot(user string, ambient []string) error {
	for _, c := range ambient {
		if !slices.Contains(harmless, c) {
			return fault.WithHint(
				fault.New(fault.Denied, "", "config.cap_add",
					"user "+strconv.Quote(user)+" would be as good as root with capability "+strconv.Quote(c)),
				"without allow_caps in the agent's plugin \"exec\" block users other than root may have "+
					strings.Join(harmless, ", ")+"; or have the agent give tasks users of their own (user_namespaces)")
		}
	}
	return nil
}

func isRoot(user string) bool {
	if user == "" {
		return true // the agent's own
	}
	u, err := users.Resolve(user)
	return err == nil && u.UID == 0
}

const all = "all"

// capabilities works out a task's set: the default without what is dropped, and what is added. Those that were added by
// name are ambient too: a user other than root has them.
func capabilities(allow, add, drop []string) (keep, ambient []string, err error) {
	allow = plain(allow)
	add = plain(add)
	drop = plain(drop)
	for _, c := range append(slices.Clone(add), drop...) {
		if c != all && !slices.Contains(AllCapabilities, c) {
			return nil, nil,
				fault.WithHint(fault.New(fault.Invalid, "", "capability "+strconv.Quote(c), "it does not exist"),
					"man 7 capabilities lists them; the prefix CAP_ is optional")
		}
	}
	for _, c := range DefaultCapabilities {
		if allowed(allow, c) && !slices.Contains(drop, c) && !slices.Contains(drop, all) {
			keep = append(keep, c)
		}
	}
	for _, c := range add {
		if c == all {
			for _, a := range AllCapabilities {
				if allowed(allow, a) && !slices.Contains(drop, a) {
					keep = append(keep, a)
				}
			}
			continue
		}
		if !allowed(allow, c) {
			return nil, nil,
				fault.WithHint(
					fault.New(fault.Denied, "", "config.cap_add",
						"this agent does not allow capability "+strconv.Quote(c)),
					"it allows "+strings.Join(allow, ", ")+"; see allow_caps in its plugin \"exec\" block")
		}
		keep, ambient = append(keep, c), append(ambient, c)
	}
	slices.Sort(keep)
	return slices.Compact(keep), ambient, nil
}

func allowed(allow []string, c string) bool {
	return slices.Contains(allow, c) || slices.Contains(allow, all)
}

// plain brings names into one form: "CAP_SYS_ADMIN" and "sys_admin" are the same.
func plain(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, strings.TrimPrefix(strings.ToLower(n), "cap_"))
	}
	return out
}

// Package names owns the numbers that the kernel has for what jobs name: capabilities and signals.
package names

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// capabilityNames in the order of their numbers.
var capabilityNames = []string{"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid",
	"setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio",
	"sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time",
	"sys_tty_config", "mknod",
	"lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm",
	"block_suspend", "audit_read",
	"perfmon", "bpf", "checkpoint_restore"}

// Capabilities turns names of capabilities into the kernel's numbers, with and without CAP_.
func Capabilities(names []string) ([]int, error) {
	var out []int
	for _, name := range names {
		i := slices.Index(capabilityNames, strings.TrimPrefix(strings.ToLower(name), "cap_"))
		if i < 0 {
			return nil, fault.WithHint(
				fault.New(fault.Invalid, "", "capability "+strconv.Quote(name), "it does not exist"),
				"man 7 capabilities lists them; the prefix CAP_ is optional")
		}
		out = append(out, i)
	}
	return out, nil
}

// Signal turns the name of a signal into its number, with and without SIG.
func Signal(name string) (int, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	n := unix.SignalNum(full)
	if n == 0 {
		return 0, fault.WithHint(fault.New(fault.Invalid, "", "signal "+strconv.Quote(name), "it does not exist"),
			"use a name like SIGTERM or SIGHUP")
	}
	return int(n), nil
}

package shim

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/users"
	"berth/internal/shimproto"
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

func capabilityNumbers(names []string) ([]int, error) {
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

// signalNumber accepts names with and without SIG.
func signalNumber(name string) (int, error) {
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

// resolveUser turns a user into numbers, and returns the passwd entry if there is one. An empty user is the agent's
// own, without its supplementary groups when the process is isolated.
func resolveUser(spec string, isolated bool) (*shimproto.User, *user.User, error) {
	if spec == "" {
		if !isolated {
			return nil, nil, nil
		}
		return &shimproto.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, nil, nil
	}
	u, err := users.Resolve(spec)
	if err != nil {
		return nil, nil, err
	}
	return &shimproto.User{UID: u.UID, GID: u.GID, Groups: u.Groups}, u.Entry, nil
}

// bootID names this boot of the kernel: pids and cgroups of another mean nothing.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // compared with what was read the same way
	}
	return strings.TrimSpace(string(b))
})

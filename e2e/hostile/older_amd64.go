package hostile

import "golang.org/x/sys/unix"

// older are calls that later machines were never given.
var older = []call{
	{"create_module", raw(unix.SYS_CREATE_MODULE)},
	{"get_kernel_syms", raw(unix.SYS_GET_KERNEL_SYMS)},
	{"query_module", raw(unix.SYS_QUERY_MODULE)},
	{"iopl", raw(unix.SYS_IOPL, wrong)},
	{"ioperm", raw(unix.SYS_IOPERM, wrong, 1, 1)},
	{"modify_ldt", raw(unix.SYS_MODIFY_LDT, wrong)},
	{"sysfs", raw(unix.SYS_SYSFS)},
	{"_sysctl", raw(unix.SYS__SYSCTL)},
	{"uselib", raw(unix.SYS_USELIB, wrong)},
	{"vserver", raw(unix.SYS_VSERVER)},
}

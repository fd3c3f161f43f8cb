package shim

import (
	"slices"

	"golang.org/x/sys/unix"

	"berth/internal/shimproto"
)

// ownPaths are what a root of a task's own has beside what is mounted there, without the distribution's directories.
var ownPaths = []string{"/dev", "/home", "/mnt", "/proc", "/root", "/run", "/srv", "/tmp", "/var"}

// writable are the paths beneath which an isolated process may change files; nil: whatever is mounted so. A task that
// may mount is held to nothing here: it could not, by this wall.
func writable(iso *shimproto.Isolate) []string {
	if !iso.NoNewPrivileges || iso.HostDevices || slices.Contains(iso.Capabilities, unix.CAP_SYS_ADMIN) {
		return nil
	}
	out := slices.Clone(ownPaths)
	for _, b := range iso.Binds {
		if !b.ReadOnly {
			out = append(out, b.Target)
		}
	}
	return out
}

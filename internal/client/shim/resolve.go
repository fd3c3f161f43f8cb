package shim

import (
	"os"
	"os/user"
	"strings"
	"sync"

	"berth/internal/port/users"
	"berth/internal/shimproto"
)

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

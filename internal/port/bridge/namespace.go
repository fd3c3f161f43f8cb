// Package bridge owns what the kernel has of allocs' networks: network namespaces, the bridge that connects them, the
// links between, and the one nftables table by which ports of the node lead to them. Everything may be repeated, and
// finds what an earlier try has left. It decides nothing: client/networks says what there is to be.
package bridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// loopback is the link that every network namespace has.
const loopback = "lo"

// unprivilegedPorts lets every user of a namespace listen on every port: there is nobody else's among them.
const unprivilegedPorts = "/proc/sys/net/ipv4/ip_unprivileged_port_start"

// MakeNamespace makes a network namespace whose loopback is up, held by a mount at path, and leaves one that is there.
// made tells which it was.
func MakeNamespace(ctx context.Context, path string) (made bool, err error) {
	there, err := IsNamespace(path)
	if there || err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "make", path)
	}
	return true, onThread(ctx, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fault.Wrap(err, fault.Internal, "make", "a network namespace")
		}
		if err := os.WriteFile(unprivilegedPorts, []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fault.Wrap(err, fault.Internal, "set", unprivilegedPorts)
		}
		lo, err := netlink.LinkByName(loopback)
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "bring up", "the loopback of a network namespace")
		}
		return fault.Wrap(unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""), fault.Internal, "hold",
			"a network namespace at "+path)
	})
}

// onThread calls fn on an operating-system thread that is thrown away afterwards: its namespaces may change.
func onThread(ctx context.Context, fn func() error) error {
	g, _ := lifecycle.NewGroup(ctx)
	g.Go("network namespace", func() error {
		runtime.LockOSThread() // never unlocked: the thread dies with its goroutine
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread() // the only one that is not thrown away: it is held meanwhile
			return onThread(ctx, fn)
		}
		return fn()
	})
	return g.Wait()
}

// IsNamespace reports whether a network namespace is held at path.
func IsNamespace(path string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return st.Type == unix.NSFS_MAGIC, fault.Wrap(err, fault.Internal, "look at", path)
}

// RemoveNamespace lets a namespace go. What still runs in it keeps it.
func RemoveNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there any more
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "unmount", path)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "remove", path)
	}
	return nil
}

// open opens a namespace for calls about it.
func open(path string) (*os.File, error) {
	f, err := os.Open(filepath.Clean(path))
	return f, fault.Wrap(err, fault.Internal, "open", "network namespace "+path)
}

// HoldNamespace holds at path the network namespace that somebody else made and holds at from. fresh: another one was
// held there before, or none.
func HoldNamespace(from, path string) (fresh bool, err error) {
	there, err := IsNamespace(from)
	if err != nil {
		return false, err
	}
	if !there {
		return false, fault.New(fault.Unavailable, "hold", "the network namespace at "+from, "there is none")
	}
	own, err := sameFile(from, "/proc/self/ns/net")
	if err != nil {
		return false, err
	}
	if own {
		return false, fault.New(fault.Invalid, "hold", "the network namespace at "+from, "it is the node's own")
	}
	held, err := IsNamespace(path)
	if err != nil {
		return false, err
	}
	if held {
		same, err := sameFile(from, path)
		if same || err != nil {
			return false, err
		}
		if err := RemoveNamespace(path); err != nil {
			return false, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = unix.Mount(from, path, "", unix.MS_BIND, "")
	}
	return err == nil, fault.Wrap(err, fault.Internal, "hold", "the network namespace at "+from)
}

func sameFile(a, b string) (bool, error) {
	one, err := os.Stat(a)
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "look at", a)
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other), fault.Wrap(err, fault.Internal, "look at", b)
}

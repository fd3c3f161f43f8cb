package bridge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netns"

	"berth/internal/base/fault"
)

func nsHandle(f *os.File) netns.NsHandle { return netns.NsHandle(f.Fd()) }

const (
	sysctls = "/proc/sys/net"
	on      = "1"
	// acceptRouting is the value of accept_ra with which a node that forwards still believes its routers.
	acceptRouting = "2"
)

// atOnce has the bridge's own IPv6 address be used without a look whether others have it, who cannot: for what comes
// from elsewhere by a port the node asks in that address's name which alloc is meant, and for as long as it looks, some
// two seconds, it would not ask.
func (b *Bridge) atOnce() error {
	if !b.IPv6.Valid() {
		return nil
	}
	return b.set("ipv6/conf/"+b.Name+"/accept_dad", "0")
}

// forwarding lets the node pass on packets of the bridge. What is set for the node as a whole stays set when the bridge
// goes: others may rely on it by then.
func (b *Bridge) forwarding() error {
	// Answers to what reached an alloc by the node's 127.0.0.1 come back to that address. What comes from the bridge to
	// it otherwise is dropped by the table, which is there before the first link.
	if err := b.set("ipv4/conf/"+b.Name+"/route_localnet", on); err != nil {
		return err
	}
	if err := b.set("ipv4/ip_forward", on); err != nil {
		return err
	}
	if !b.IPv6.Valid() {
		return nil
	}
	const forwarding6 = "ipv6/conf/all/forwarding"
	now, err := os.ReadFile(filepath.Join(sysctls, forwarding6))
	if err == nil && strings.TrimSpace(string(now)) == on {
		return nil // each link has a setting below: a start would read those of all allocs
	}
	// A node that forwards IPv6 forgets the routes that its routers announced, unless it is set to keep them.
	all, err := filepath.Glob(sysctls + "/ipv6/conf/*/accept_ra")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "list", "settings of IPv6")
	}
	for _, path := range all {
		value, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // the link has gone
		}
		if err == nil && strings.TrimSpace(string(value)) == on {
			err = b.set(strings.TrimPrefix(path, sysctls+"/"), acceptRouting)
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "keep", "the routes that routers announced")
		}
	}
	return b.set(forwarding6, on)
}

// set sets a value of the kernel that is another one.
func (b *Bridge) set(name, value string) error {
	path := filepath.Join(sysctls, name)
	now, err := os.ReadFile(path)
	if before := strings.TrimSpace(string(now)); err == nil && before != value {
		own := strings.Contains(name, "/"+b.Name+"/") // it goes with the bridge
		if err = os.WriteFile(path, []byte(value), 0); err == nil && b.Note != nil && !own {
			b.Note(strings.ReplaceAll("net/"+name, "/", "."), before, value)
		}
	}
	return fault.Wrap(err, fault.Internal, "set", path+" to "+value)
}

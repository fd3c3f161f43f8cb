package spec

import (
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/privilege"
	"berth/internal/model/container"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

const inBlock = ` in the agent's plugin "docker" block`

// privileges bounds what the container may do to the node. Whatever makes root of the node of its job is refused,
// unless the agent's configuration allows it.
func (p *Policy) privileges(cfg *driver.TaskConfig, o Options, h *dockerapi.Host) error {
	for _, n := range container.Needs(o) {
		if err := p.allows(n); err != nil {
			return err
		}
	}
	h.Privileged, h.SecurityOpt = o.Yes("privileged"), o.Texts("security_opt")
	for option, to := range map[string]*string{"pid_mode": &h.PidMode, "uts_mode": &h.UTSMode,
		"userns_mode": &h.UsernsMode} {
		if mode := o.Text(option); mode != "private" { // which is what it is without
			*to = mode
		}
	}
	h.IpcMode = o.Text("ipc_mode")
	if h.Runtime != "" && !slices.Contains(p.AllowRuntimes, h.Runtime) {
		return fault.WithHint(fault.New(fault.Denied, "", "config.runtime",
			"the agent does not let jobs choose "+strconv.Quote(h.Runtime)), "add it to allow_runtimes"+inBlock)
	}
	if err := p.devices(cfg, o, h); err != nil {
		return err
	}
	var err error
	h.CapAdd, h.CapDrop, err = p.capabilities(o.Texts("cap_add"), o.Texts("cap_drop"))
	switch {
	case err != nil:
		return err
	case h.Privileged:
		h.CapAdd, h.CapDrop = nil, nil // it has them all
	case cfg.CSIPluginNode:
		return p.onNode(h)
	}
	return nil
}

// lastKnown is the highest capability by number, audit_read, that all daemons know which are spoken with.
const lastKnown = 37

// onNode lets a storage plugin act on the node: it mounts, and sees the node's devices. It is not what the daemon calls
// privileged, because that asks for capabilities that the daemon itself may not have.
func (p *Policy) onNode(h *dockerapi.Host) error {
	const why = "a storage plugin that mounts on the node is root on it"
	err := p.allows(container.Need{Field: "csi_plugin", Why: why, Of: container.Privileged})
	if err != nil {
		return err
	}
	bound, err := privilege.Bounding()
	if err != nil {
		return err
	}
	h.CapAdd, h.CapDrop = nil, []string{strings.ToUpper(all)}
	for number, name := range exec.AllCapabilities {
		if bound&(1<<number) != 0 && number <= lastKnown {
			h.CapAdd = append(h.CapAdd, strings.ToUpper(name))
		}
	}
	h.SecurityOpt = append(h.SecurityOpt, "seccomp=unconfined", "apparmor=unconfined", "label=disable")
	h.DeviceCgroupRules = []string{"a *:* rwm"}
	h.MaskedPaths, h.ReadonlyPaths = &[]string{}, &[]string{}
	return nil
}

// allows refuses what the agent does not allow.
func (p *Policy) allows(n container.Need) error {
	allowed := p.AllowPrivileged
	refused, instead := n.Why+", which this agent does not allow", ""
	if n.Of == container.Volumes {
		allowed, refused = p.AllowVolumes, n.Why+" are not allowed on this node"
		instead = "use the volume block of the group, or "
	}
	if allowed {
		return nil
	}
	return fault.WithHint(fault.New(fault.Denied, "", n.Field, refused), instead+"set "+n.Of.Setting+inBlock)
}

func (p *Policy) needVolumes(what, which string) error {
	return p.allows(container.Need{Field: what, Why: which, Of: container.Volumes})
}

// devices of the node, and those that Berth gives the task.
func (p *Policy) devices(cfg *driver.TaskConfig, o Options, h *dockerapi.Host) error {
	for _, dev := range cfg.Devices {
		h.Devices = append(h.Devices, device(dev.HostPath, dev.TaskPath, dev.Permissions))
	}
	for _, b := range o.Blocks("devices") {
		permissions := b.Text("cgroup_permissions")
		if strings.Trim(permissions, "rwm") != "" {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.devices.cgroup_permissions",
				strconv.Quote(permissions)+" are none"), "write some of r, w and m")
		}
		h.Devices = append(h.Devices, device(b.Text("host_path"), b.Text("container_path"), permissions))
	}
	return nil
}

func device(at, shown, permissions string) dockerapi.Device {
	if shown == "" {
		shown = at
	}
	if permissions == "" {
		permissions = "rwm"
	}
	return dockerapi.Device{PathOnHost: at, PathInContainer: shown, CgroupPermissions: permissions}
}

// daemonCaps are those that a daemon gives a container that asks for nothing.
var daemonCaps = append([]string{"net_raw"}, DefaultCaps...)

const all = "all"

// capabilities are those to add to what the daemon gives, and to take away. A container has what the agent allows and
// the job did not drop.
func (p *Policy) capabilities(add, drop []string) (added, dropped []string, err error) {
	allowed := plainAll(p.AllowCaps)
	for _, name := range plainAll(add) {
		if name == all {
			if !slices.Contains(allowed, all) {
				added = append(added, allowed...)
				continue
			}
		} else if !slices.Contains(allowed, name) && !slices.Contains(allowed, all) {
			return nil, nil, fault.WithHint(fault.New(fault.Denied, "", "config.cap_add",
				"the agent does not let tasks have the capability "+name), "add it to allow_caps"+inBlock)
		}
		added = append(added, name)
	}
	dropped = plainAll(drop)
	if !slices.Contains(allowed, all) && !slices.Contains(dropped, all) {
		for _, name := range daemonCaps {
			if !slices.Contains(allowed, name) && !slices.Contains(dropped, name) {
				dropped = append(dropped, name)
			}
		}
	}
	return shout(added), shout(dropped), nil
}

// plain is the name of a capability as configurations write it: "net_raw".
func plain(name string) string {
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "cap_")
}

func plainAll(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, plain(n))
	}
	return out
}

// shout writes names as the daemon does.
func shout(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.ToUpper(n))
	}
	return out
}

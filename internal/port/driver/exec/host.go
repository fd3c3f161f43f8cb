package exec

import (
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// The modes of a namespace: the task's own, or shared with the node.
const (
	private = "private"
	host    = "host"
)

// reaching are the capabilities by which a task among the node's processes, or its shared memory, becomes one of them:
// any user's (setuid, setgid), a debugger of any (sys_ptrace, checkpoint_restore, perfmon, bpf), or master of what it
// finds behind their /proc/PID/root and in their segments (dac_override and dac_read_search, chown and fowner by a
// change of owner or mode, ipc_owner; sys_admin is all of these). A task that shares such a namespace has none,
// whatever it and allow_caps say. sys_module, sys_rawio and the like are not here: they don't need a shared namespace
// to be the node.
var reaching = []string{"bpf", "checkpoint_restore", "chown", "dac_override", "dac_read_search", "fowner", "ipc_owner",
	"perfmon",
	"setgid", "setuid", "sys_admin", "sys_ptrace"}

// hostModes lets a task share namespaces of the node where the agent says so, and tells whether it shares one. A
// node-role storage plugin, once it is allowed, is the node by all its other privileges.
func (d *Driver) hostModes(cfg *driver.TaskConfig, iso *driver.IsolateSpec) (shares bool, err error) {
	plugin := cfg.CSIPluginNode && d.cfg.AllowCSINode
	for _, m := range []struct {
		option, mode string
		allowed      bool
		attribute    string
	}{
		{"pid_mode", iso.PIDMode, d.cfg.AllowHostPID, attributeHostPID},
		{"ipc_mode", iso.IPCMode, d.cfg.AllowHostIPC, attributeHostIPC},
	} {
		if m.mode != host {
			continue
		}
		shares = true
		if !m.allowed && !plugin {
			option := m.attribute[strings.LastIndex(m.attribute, ".")+1:]
			return shares,
				fault.WithHint(
					fault.New(fault.Denied, "", "config."+m.option,
						strconv.Quote(host)+" is not allowed to tasks of driver exec by this agent"),
					"leave it out, or set "+option+
						" = true in the config of the agent's plugin \"exec\" block; a constraint on ${attr."+
						m.attribute+"} finds nodes that have it")
		}
	}
	return shares && !plugin, nil
}

// Attributes of nodes that allow what they are named after (node.Permission).
const (
	attributeHostPID = "driver.exec.allow_host_pid"
	attributeHostIPC = "driver.exec.allow_host_ipc"
	attributeCSINode = "driver.exec.allow_csi_node"
	// attributeCaps lists, with commas between, the capabilities that cap_add may ask for; or it is "none".
	attributeCaps = "driver.exec.allow_caps"
)

// refuseReaching names the capabilities that a task of a host mode may not ask for.
func refuseReaching(add []string) error {
	for _, c := range plain(add) {
		if slices.Contains(reaching, c) {
			return fault.WithHint(
				fault.New(fault.Denied, "", "config.cap_add",
					"capability "+strconv.Quote(c)+
						" makes a task with pid_mode or ipc_mode \"host\" master of the node"),
				"leave out "+c+", or the host mode; with one of these modes a task may not have "+
					strings.Join(reaching, ", "))
		}
	}
	return nil
}

// Package plugins owns the blocks of an agent's configuration that are named after task drivers. The agent imports it.
package plugins

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/qemu"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/pluginhost"
	"berth/internal/port/seccomp"
	"berth/internal/port/users"
	"berth/jobspec/hclfile"
)

// Plugin configures a task driver.
type Plugin struct {
	Name   string   `hcl:"name,label"`
	Config *Options `hcl:"config,block"`

	Other  *Other  // what the block holds of a driver that is a program of its own
	Docker *Docker // what that of the driver docker holds
	Qemu   *Qemu   // what that of the driver qemu holds
}

// Other configures a driver that is a program of its own.
type Other struct {
	Args   []string       `hcl:"args"`       // of the program
	Config map[string]any `hcl:"config,any"` // as the plugin takes it
}

// Special has the blocks of drivers that are not built in read as Other, and those of docker and qemu as their own.
var Special = hclfile.Special{Other: func(v reflect.Value) reflect.Value {
	p, ok := v.Addr().Interface().(*Plugin)
	if ok && p.Name == docker.Name {
		p.Docker = &Docker{}
		return reflect.ValueOf(p.Docker).Elem()
	}
	if ok && p.Name == qemu.Name {
		p.Qemu = &Qemu{}
		return reflect.ValueOf(p.Qemu).Elem()
	}
	if !ok || p.builtIn() {
		return reflect.Value{}
	}
	p.Other = &Other{}
	return reflect.ValueOf(p.Other).Elem()
}}

func (p *Plugin) builtIn() bool {
	return p.Name == rawexec.Name || p.Name == exec.Name || p.Name == docker.Name || p.Name == qemu.Name
}

// DockerSpecial refuses options of the driver docker that others have, with the way out.
var DockerSpecial = hclfile.Special{Refusal: dockerRefusals}

// Options holds the options of the built-in drivers.
type Options struct {
	Enabled      *bool    `hcl:"enabled"`        // raw_exec
	AllowCSINode *bool    `hcl:"allow_csi_node"` // exec: node-role storage plugins may act on the node
	AllowCaps    []string `hcl:"allow_caps"`     // exec
	// AllowSyscalls are system calls that tasks of exec may make beyond those that all may.
	AllowSyscalls []string `hcl:"allow_syscalls"`
	// UserNamespaces are numbers of the node for the users of exec's tasks, "1000000-1999999"; not set: none.
	UserNamespaces *string  `hcl:"user_namespaces"`
	ShowEtc        []string `hcl:"show_etc"`       // exec: entries of /etc that tasks see beyond those that all see
	IOMax          []string `hcl:"io_max"`         // exec: bounds of block devices, for each task
	AllowHostPID   *bool    `hcl:"allow_host_pid"` // exec: tasks may share the node's pid namespace
	AllowHostIPC   *bool    `hcl:"allow_host_ipc"` // exec: tasks may share the node's ipc namespace

	// DefaultUser is of tasks that name none; not set: nobody for exec, the agent's own for raw_exec.
	DefaultUser *string  `hcl:"default_user"`
	DeniedUsers []string `hcl:"denied_users"` // names or numbers that no task runs as; not set: root for exec
	// DeniedUIDs and DeniedGIDs are numbers and ranges of them, "0,10-99". Not set: none, and group 0 for exec.
	DeniedUIDs *string `hcl:"denied_host_uids"`
	DeniedGIDs *string `hcl:"denied_host_gids"`
}

// Check refuses options that the driver of that name does not have, rather than to ignore them, and drivers that are
// neither built in nor can be in dir, where programs of others are; empty: there is none.
func (p *Plugin) Check(dir string) error {
	what := p.what()
	c := p.Options()
	if !p.builtIn() {
		switch {
		case dir == "":
			return bad(what, "there is no such task driver",
				"there are docker, exec, qemu and raw_exec, and those that plugin_dir holds as programs: set it")
		case ids.ValidName(p.Name) != nil:
			return bad(what, "this is not the name of a file in plugin_dir", "name it as the file is called")
		}
		return nil
	}
	if p.Name == docker.Name {
		_, err := p.docker()
		return err
	}
	if p.Name == qemu.Name {
		_, err := p.Machines()
		return err
	}
	_, users := p.Users()
	if p.Name == "raw_exec" {
		if c.confines() {
			users = errors.Join(bad(what,
				"raw_exec has no options allow_csi_node, allow_caps, allow_syscalls, show_etc, io_max, "+
					"allow_host_pid, allow_host_ipc and user_namespaces: its tasks are not confined",
				"leave them out, or set them for exec"), users)
		}
		return users
	}
	var enabled error
	if c.Enabled != nil {
		enabled = bad(what, "exec has no option enabled: it is on wherever the machine allows it", "leave it out")
	}
	_, ids := p.IDs()
	return errors.Join(enabled, users, ids, fault.Note(exec.CheckEtc(c.ShowEtc), "", what+" show_etc"),
		fault.Note(exec.CheckIO(c.IOMax), "", what+" io_max"),
		fault.Note(seccomp.Check(c.AllowSyscalls), "", what+" allow_syscalls"))
}

// confines reports whether it has options of a driver that confines its tasks.
func (c *Options) confines() bool {
	return c.AllowCSINode != nil || c.AllowCaps != nil || c.AllowSyscalls != nil || c.AllowHostPID != nil ||
		c.AllowHostIPC != nil || c.ShowEtc != nil || c.UserNamespaces != nil ||
		c.IOMax != nil
}

// External is how a plugin is run that is a program of its own; false: it is built in. dir is where it is found, and
// state where it may write.
func (p *Plugin) External(dir, state string) (pluginhost.Config, bool) {
	if p.builtIn() {
		return pluginhost.Config{}, false
	}
	c := pluginhost.Config{
		Block: p.Name,
		Path:  filepath.Join(dir, p.Name),
		Dir:   filepath.Join(state, p.Name),
	}
	if p.Other != nil {
		c.Args, c.Values = p.Other.Args, p.Other.Config
	}
	return c, true
}

// Options are those that the block sets; the rest is nil.
func (p *Plugin) Options() Options {
	if p.Config == nil {
		return Options{}
	}
	return *p.Config
}

// Users is as whom the tasks of a driver run. Tasks of exec are nobody unless their job says otherwise, and never root;
// those of raw_exec are what the agent is: who may submit them is root anyway.
func (p *Plugin) Users() (users.Policy, error) {
	c := p.Options()
	var out users.Policy
	gids := ""
	if p.Name == exec.Name {
		out, gids = users.Policy{Default: "nobody", Denied: []string{"root"}}, "0"
	}
	if c.DefaultUser != nil {
		out.Default = *c.DefaultUser
	}
	if c.DeniedUsers != nil {
		out.Denied = c.DeniedUsers
	}
	if c.DeniedGIDs != nil {
		gids = *c.DeniedGIDs
	} else if c.DeniedUsers != nil && len(c.DeniedUsers) == 0 {
		gids = "" // whoever lets tasks be root lets them be in its group
	}
	var groups, numbers error
	out.DeniedGIDs, groups = users.ParseRanges(gids)
	if c.DeniedUIDs != nil {
		out.DeniedUIDs, numbers = users.ParseRanges(*c.DeniedUIDs)
	}
	return out, errors.Join(fault.Note(groups, "configure", p.what()+" denied_host_gids"),
		fault.Note(numbers, "configure", p.what()+" denied_host_uids"), p.checkDefaultUser(&out))
}

// checkDefaultUser refuses a default that would have every task refused that names no user, and one that is not set
// where the agent's own is denied: tasks of raw_exec would be it for all that. One that the node does not
// know is said by the tasks that would need it: others run.
func (p *Plugin) checkDefaultUser(u *users.Policy) error {
	if p.Name == exec.Name && u.Default == "" {
		return bad(p.what()+" default_user", "it is empty", `leave it out for nobody, or name the user, such as "root"`)
	}
	asked := cmp.Or(u.Default, strconv.Itoa(os.Geteuid()))
	if err := u.Check(asked); fault.Has(err, fault.Denied) {
		return fault.WithHint(fault.Note(err, "configure", p.what()+" default_user"),
			"name another default_user; or take it out of denied_users, denied_host_uids and denied_host_gids: "+
				"denied_users = [] lets tasks be root")
	}
	return nil
}

// IDs are the numbers of which allocs get their own, in user namespaces; nil: their tasks share the node's users.
func (p *Plugin) IDs() (*driver.IDRange, error) {
	text := p.Options().UserNamespaces
	if text == nil {
		return nil, nil
	}
	r, err := exec.ParseIDs(*text)
	return r, fault.Note(err, "configure", p.what()+" user_namespaces")
}

func (p *Plugin) what() string { return "plugin \"" + p.Name + "\"" }

// bad refuses a setting, with the reason and the way out.
func bad(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
}

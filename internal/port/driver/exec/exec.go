// Package exec owns the driver "exec": a task is a process in mount, pid, ipc and uts namespaces of its own, whose root
// shows the distribution's programs read-only and, writable, only the task's own directories. The driver manager
// imports it.
package exec

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	devicefilter "berth/internal/base/devices"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/privilege"
	"berth/internal/model/job"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/launched"
	"berth/internal/port/seccomp"
	"berth/internal/port/users"
)

// Name of the driver in a job's task block.
const Name = "exec"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// DefaultSystem are the distribution's directories that every task sees, read-only, where the node has them.
var DefaultSystem = []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/usr"}

// Paths of a task's own directories in its root.
const (
	AllocPath   = "/alloc"
	LocalPath   = "/local"
	SecretsPath = "/secrets"
	TmpPath     = "/tmp"
)

// Config of the driver in the agent's configuration.
type Config struct {
	// AllowCSINode lets tasks with a node-role csi_plugin block act on the node: all capabilities, its devices, mounts
	// that propagate to it.
	AllowCSINode bool
	// AllowHostPID and AllowHostIPC let tasks share the node's processes, or its shared memory and message queues. They
	// do that without the capabilities that would make them the node.
	AllowHostPID bool
	AllowHostIPC bool
	// AllowCaps bounds what cap_add may ask for; nil: DefaultCapabilities, and for users other than root what does not
	// make root of them.
	AllowCaps []string
	// AllowSyscalls are system calls that tasks may make beyond the list of port/seccomp, by name.
	AllowSyscalls []string
	// KeepProjects keeps tasks from taking files out of the quotas that their disks are held to.
	KeepProjects bool
	// ShowEtc are entries of /etc that tasks see beyond DefaultEtc.
	ShowEtc []string
	// IOMax bounds what each task reads from block devices and writes to them: "PATH rbps=… wiops=…", where PATH is a
	// device or lies on one.
	IOMax []string
	// Users says as whom tasks run. Who is the agent's own user has bounded capabilities.
	Users users.Policy
	// IDs are numbers of the node that nobody else has: tasks have user namespaces, with users of their own from them;
	// nil: they share the node's.
	IDs *driver.IDRange
	// System replaces DefaultSystem.
	System []string
}

// Driver implements driver.Driver.
type Driver struct {
	cfg Config
	opt launched.Options
	// filter is of system calls; unfiltered is why there is none.
	filter     []byte
	unfiltered error
	// io are the bounds of IOMax for the kernel; unbounded is why there are none.
	io        []string
	unbounded error
}

var _ driver.Driver = (*Driver)(nil)

const defaultSignal = "SIGINT"

// New returns the driver.
func New(cfg Config, l driver.Launcher) *Driver {
	if cfg.System == nil {
		cfg.System = DefaultSystem
	}
	d := &Driver{cfg: cfg, opt: launched.Options{Driver: Name, Launcher: l, DefaultSignal: defaultSignal}}
	d.filter, d.unfiltered = seccomp.Compile(cfg.AllowSyscalls, cfg.KeepProjects)
	d.io, d.unbounded = findDevices(cfg.IOMax)
	return d
}

// Unbounded is why tasks would not have the bounds of IOMax; nil: they have them.
func (d *Driver) Unbounded() error { return d.unbounded }

// As returns the driver under another name: of a driver that writes the command line and leaves the rest to it.
func (d *Driver) As(name string) *Driver {
	out := *d
	out.opt.Driver = name
	return &out
}

// System are the directories of the node's distribution that tasks see.
func (d *Driver) System() []string { return d.cfg.System }

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	return driver.Info{
		Name:    Name,
		Version: "1",
		Schema:  schema,
		Capabilities: driver.Capabilities{
			SendSignals:   true,
			Exec:          true,
			FSIsolation:   driver.IsolationChroot,
			Mounts:        driver.MountAll,
			SelfFence:     true,
			Evidence:      driver.EvidenceCgroup,
			DefaultSignal: defaultSignal,
		},
		Users: d.cfg.Users,
	}
}

var schema = taskconfig.Schema{
	// In the task's root: a path, or a name looked for in /local and PATH.
	"command":       {Kind: taskconfig.Text, Required: true},
	"args":          {Kind: taskconfig.Texts},
	"work_dir":      {Kind: taskconfig.Text, Absolute: true}, // as the task sees it; /local and the like
	"oom_score_adj": {Kind: taskconfig.Number, Most: launched.MaxOOMScore},
	"pid_mode":      {Kind: taskconfig.Text, OneOf: []string{private, host}}, // host: where the agent allows it
	"ipc_mode":      {Kind: taskconfig.Text, OneOf: []string{private, host}},
	"cap_add":       {Kind: taskconfig.Texts}, // as far as the agent allows them; all adds those
	"cap_drop":      {Kind: taskconfig.Texts}, // all drops the default set
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) driver.Fingerprint {
	if d.unfiltered != nil {
		return driver.Fingerprint{Health: driver.Unhealthy, Description: d.unfiltered.Error()}
	}
	f := launched.Look(d.opt.Launcher, Name, true)
	if c, ok := d.opt.Launcher.(driver.IDChecker); ok && d.cfg.IDs != nil && f.Health == driver.Healthy {
		if err := c.CheckIDs(ctx, *d.cfg.IDs, d.cfg.System); err != nil {
			return driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
		}
	}
	if c, ok := d.opt.Launcher.(driver.IOChecker); ok && len(d.io) > 0 && f.Health == driver.Healthy {
		if err := c.CheckIO(); err != nil {
			return driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
		}
	}
	if f.Health == driver.Healthy {
		for name, allowed := range map[string]bool{
			attributeHostPID: d.cfg.AllowHostPID,
			attributeHostIPC: d.cfg.AllowHostIPC,
			attributeCSINode: d.cfg.AllowCSINode,
			attributeUsers:   d.cfg.IDs != nil,
			attributeSockets: privilege.ScopesSockets(),
			attributeDevices: devicefilter.Supported(),
			attributeWall:    privilege.Walls(),
		} {
			if allowed {
				f.Attributes[name] = "1"
			}
		}
		f.Attributes[attributeCaps] = cmp.Or(strings.Join(plain(d.allowedCaps()), ","), "none")
	}
	return f
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	spec, err := d.spec(cfg)
	if err != nil {
		return nil, fault.Note(err, "start", "task "+strconv.Quote(cfg.Task)+" with driver exec")
	}
	return launched.Start(ctx, d.opt, cfg, spec)
}

// Abort implements driver.Driver.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error {
	return d.opt.Launcher.Abort(ctx, id, task, attempt)
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	return launched.Recover(ctx, d.opt, h)
}

func (d *Driver) spec(cfg *driver.TaskConfig) (*driver.LaunchSpec, error) {
	if d.unfiltered != nil {
		return nil, d.unfiltered
	}
	if d.unbounded != nil {
		return nil, d.unbounded
	}
	config, err := schema.Read(Name, cfg.Config)
	if err != nil {
		return nil, err
	}
	iso := &driver.IsolateSpec{
		System:          d.cfg.System,
		Devices:         devices(cfg),
		NoNewPrivileges: true,
		Etc:             etc(d.cfg.ShowEtc),
		Filter:          d.filter,
	}
	iso.PIDMode, _ = config["pid_mode"].(string)
	iso.IPCMode, _ = config["ipc_mode"].(string)
	if iso.Binds, err = binds(cfg); err != nil {
		return nil, err
	}
	if n := cfg.Network; n != nil {
		iso.Hostname = n.Hostname
		iso.Etc = slices.DeleteFunc(iso.Etc, func(name string) bool {
			path := filepath.Join(etcDir, name)
			return slices.ContainsFunc(n.Files, func(f driver.Mount) bool { return f.Target == path })
		})
		iso.Binds = slices.Concat(n.Files, iso.Binds) // what a job mounts itself lies above
	}
	if err := d.privileges(cfg, config, iso); err != nil {
		return nil, err
	}
	spec := launched.Spec(cfg)
	spec.Argv = launched.Command(config)
	spec.Env = launched.Env(cfg.Env, defaultPath)
	spec.Dir, spec.OOMScore = launched.WorkDir(config, "/"), launched.OOMScore(config)
	spec.Search = []string{LocalPath}
	spec.Isolate, spec.IO = iso, d.io
	return spec, nil
}

// privileges bounds what the task may do to the node.
func (d *Driver) privileges(cfg *driver.TaskConfig, config map[string]any, iso *driver.IsolateSpec) error {
	shares, err := d.hostModes(cfg, iso)
	if err != nil {
		return err
	}
	if cfg.CSIPluginNode {
		if !d.cfg.AllowCSINode {
			return fault.WithHint(
				fault.New(fault.Denied, "", "csi_plugin",
					"node-role plugins act on the node itself, which this agent does not allow tasks of driver exec"),
				"set allow_csi_node = true in the agent's plugin \"exec\" block")
		}
		iso.Capabilities = AllCapabilities
		iso.HostDevices = true
		iso.NoNewPrivileges = false
		iso.Filter = nil
		iso.Etc = nil
		return nil
	}
	add, drop := launched.Texts(config, "cap_add"), launched.Texts(config, "cap_drop")
	if shares {
		if err := refuseReaching(add); err != nil {
			return err
		}
		drop = append(drop, reaching...)
	}
	if d.cfg.IDs != nil && !shares {
		if err := ownUsers(add, iso.Binds); err != nil {
			return err
		}
		iso.IDs = d.cfg.IDs
	}
	iso.Capabilities, iso.Ambient, err = capabilities(d.allowedCaps(), add, drop)
	if err == nil && d.cfg.AllowCaps == nil && iso.IDs == nil && !isRoot(cfg.User) {
		err = refuseRoot(cfg.User, iso.Ambient)
	}
	return err
}

// allowedCaps are what a task may have, if nothing else about it speaks against them.
func (d *Driver) allowedCaps() []string {
	if d.cfg.AllowCaps == nil {
		return DefaultCapabilities
	}
	return d.cfg.AllowCaps
}

// binds are the task's own directories and the job's mounts.
func binds(cfg *driver.TaskConfig) ([]driver.Mount, error) {
	out := []driver.Mount{
		{Source: cfg.AllocDir, Target: AllocPath},
		{Source: filepath.Join(cfg.TaskDir, "local"), Target: LocalPath},
		{Source: filepath.Join(cfg.TaskDir, "secrets"), Target: SecretsPath},
		{Source: filepath.Join(cfg.TaskDir, "tmp"), Target: TmpPath},
	}
	// The shim writes there as root: a task that could put links into it would choose what it writes.
	if rel, err := filepath.Rel(cfg.AllocDir, cfg.Logs.Dir); err == nil && cfg.Logs.Dir != "" &&
		filepath.IsLocal(rel) && rel != "." {
		out = append(out, driver.Mount{Source: cfg.Logs.Dir, Target: filepath.Join(AllocPath, rel), ReadOnly: true})
	}
	for _, m := range cfg.Mounts {
		target := filepath.Clean(m.Target)
		if !filepath.IsAbs(target) || job.Unmountable(target) {
			return nil, fault.WithHint(
				fault.New(fault.Invalid, "", "mount target "+strconv.Quote(m.Target),
					"nothing can be mounted there in a task"),
				"choose an absolute path other than /, /proc and /sys")
		}
		m.Target = target
		out = append(out, m)
	}
	return out, nil
}

func devices(cfg *driver.TaskConfig) []driver.Device {
	var out []driver.Device
	for _, d := range cfg.Devices {
		if d.TaskPath == "" {
			d.TaskPath = d.HostPath
		}
		out = append(out, d)
	}
	return out
}

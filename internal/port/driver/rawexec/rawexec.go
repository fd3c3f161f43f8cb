// Package rawexec owns the driver "raw_exec": a task is a plain process on the node, with its file system and devices
// and, unless the job names a user, its root. It still lives in a cgroup and outlives the agent. The driver manager
// imports it.
package rawexec

import (
	"context"
	"path/filepath"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/launched"
	"berth/internal/port/users"
)

// Name of the driver in a job's task block.
const Name = "raw_exec"

// defaultPath is for an agent that was started without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Config of the driver in the agent's configuration.
type Config struct {
	// Enabled: whoever may submit a job is root on the node. Off unless the agent's configuration says otherwise.
	Enabled bool
	// DataDir is the agent's directory, which nobody else may enter. Of what lies in it, tasks of other users see their
	// own alloc.
	DataDir string
	// Users says as whom tasks run.
	Users users.Policy
}

// Driver implements driver.Driver.
type Driver struct {
	cfg Config
	opt launched.Options
}

var _ driver.Driver = (*Driver)(nil)

const defaultSignal = "SIGINT"

// New returns the driver.
func New(cfg Config, l driver.Launcher) *Driver {
	return &Driver{cfg: cfg, opt: launched.Options{Driver: Name, Launcher: l, DefaultSignal: defaultSignal}}
}

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
			FSIsolation:   driver.IsolationNone,
			Mounts:        driver.MountNone,
			Evidence:      driver.EvidenceCgroup,
			DefaultSignal: defaultSignal,
		},
		Users: d.cfg.Users,
	}
}

var schema = taskconfig.Schema{
	// A path, relative to the task directory, or a name looked for in local/ and PATH.
	"command":       {Kind: taskconfig.Text, Required: true},
	"args":          {Kind: taskconfig.Texts},
	"work_dir":      {Kind: taskconfig.Text, Absolute: true}, // of the node
	"oom_score_adj": {Kind: taskconfig.Number, Most: launched.MaxOOMScore},
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(context.Context) driver.Fingerprint {
	if !d.cfg.Enabled {
		return driver.Fingerprint{
			Health: driver.Undetected,
			Description: "disabled: its tasks are not isolated; set enabled = true in the agent's plugin " +
				"\"raw_exec\" block",
		}
	}
	return launched.Look(d.opt.Launcher, Name, false)
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) {
		return nil, fault.Note(err, "start", "task "+strconv.Quote(cfg.Task)+" with driver raw_exec")
	}
	if err := d.check(cfg); err != nil {
		return fail(err)
	}
	config, err := schema.Read(Name, cfg.Config)
	if err != nil {
		return fail(err)
	}
	spec := launched.Spec(cfg)
	spec.Argv, spec.Env = launched.Command(config), launched.Env(environment(cfg.User, cfg.Env), defaultPath)
	spec.Search = []string{filepath.Join(cfg.TaskDir, "local")}
	spec.Dir, spec.OOMScore = launched.WorkDir(config, cfg.TaskDir), launched.OOMScore(config)
	if cfg.User != "" && d.cfg.DataDir != "" {
		spec.Reach = &driver.Reach{Dir: d.cfg.DataDir, Own: filepath.Dir(cfg.TaskDir)}
	}
	return launched.Start(ctx, d.opt, cfg, spec)
}

// check refuses what this driver does not do, or not on this node.
func (d *Driver) check(cfg *driver.TaskConfig) error {
	const useExec = "use driver exec"
	if !d.cfg.Enabled {
		return fault.WithHint(fault.New(fault.Denied, "", "", "the driver is disabled on this node"),
			"set enabled = true in the agent's plugin \"raw_exec\" block")
	}
	if len(cfg.Mounts) > 0 {
		return fault.WithHint(fault.New(fault.Unsupported, "", "mount "+strconv.Quote(cfg.Mounts[0].Target),
			"the driver cannot mount: its tasks see the node's own tree"), useExec)
	}
	for _, dev := range cfg.Devices {
		if dev.TaskPath != "" && dev.TaskPath != dev.HostPath {
			return fault.WithHint(fault.New(fault.Unsupported, "", "device "+strconv.Quote(dev.HostPath),
				"the driver cannot show it at another path"), useExec)
		}
	}
	return nil
}

// Abort implements driver.Driver.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error {
	return d.opt.Launcher.Abort(ctx, id, task, attempt)
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	return launched.Recover(ctx, d.opt, h)
}

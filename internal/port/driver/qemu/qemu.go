// Package qemu owns the driver "qemu": a machine of a disk image, which qemu emulates in a root of its own. It finds
// qemu, writes its command line, and asks a machine to shut down; the rest is the driver exec's. The driver manager
// imports it.
package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/program"
)

// Name of the driver in a job's task block.
const Name = "qemu"

// Emulator is the program that emulates a machine.
const Emulator = "qemu-system-x86_64"

// Config of the driver.
type Config struct {
	// Images are directories of the node, and files, that images may be taken from beside the task's own. Machines only
	// read those: what one wrote there others would boot.
	Images []string
	// Writable are more of them, whose images machines write to.
	Writable []string
	// Search is where the program is looked for, as PATH is; empty: the agent's PATH.
	Search string
	Log    *slog.Logger
}

// Driver implements driver.Driver.
type Driver struct {
	cfg  Config
	exec *exec.Driver
	qemu *program.Program
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver; its tasks are confined as those of isolated are.
func New(cfg Config, isolated *exec.Driver) *Driver {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{cfg: cfg, exec: isolated.As(Name), qemu: &program.Program{
		Driver:  Name,
		Name:    Emulator,
		Search:  cfg.Search,
		Ask:     "--version",
		Read:    version,
		Install: "install qemu, such as the package qemu-system-x86",
	}}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Info implements driver.Driver. What is sent to the process, or runs beside it, is not in the machine.
func (d *Driver) Info() driver.Info {
	info := d.exec.Info()
	info.Name, info.Schema = Name, schema(info.Schema)
	info.Capabilities.SendSignals, info.Capabilities.Exec = false, false
	return info
}

// Interfaces to which the disk of an image can be connected; the first one is it where a job names none.
var interfaces = []string{"ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio", "none"}

const (
	tcg = "tcg"
	kvm = "kvm"
)

// schema is what the driver takes, and of what exec takes all that is no program's.
func schema(of taskconfig.Schema) taskconfig.Schema {
	out := taskconfig.Schema{
		"image_path":        {Kind: taskconfig.Text, Required: true},
		"drive_interface":   {Kind: taskconfig.Text, OneOf: interfaces},
		"accelerator":       {Kind: taskconfig.Text, OneOf: []string{tcg, kvm}},
		"graceful_shutdown": {Kind: taskconfig.Boolean},
		"guest_agent":       {Kind: taskconfig.Boolean},
		"port_map":          {Kind: taskconfig.Map}, // labels of ports with numbers in the machine
		"args":              {Kind: taskconfig.Texts},
	}
	for _, name := range []string{"oom_score_adj"} {
		if f, ok := of[name]; ok {
			out[name] = f
		}
	}
	return out
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) driver.Fingerprint {
	return d.qemu.Fingerprint(ctx, d.exec)
}

var says = regexp.MustCompile(`(?m)^QEMU emulator version (\S+)`)

// version reads what the program says of its version.
func version(out string) map[string]string {
	if found := says.FindStringSubmatch(out); found != nil {
		return map[string]string{"version": found[1]}
	}
	return nil
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) {
		return nil, fault.Note(err, "start", "task "+strconv.Quote(cfg.Task)+" with driver qemu")
	}
	config, err := d.Info().Schema.Read(Name, cfg.Config)
	if err != nil {
		return fail(err)
	}
	found := d.qemu.Look(ctx, d.exec.System())
	if found.Problem != nil {
		return fail(found.Problem)
	}
	o := taskconfig.Options(config)
	inner := *cfg
	if err := d.show(&inner, o); err != nil {
		return fail(err)
	}
	words, err := arguments(cfg, o)
	if err != nil {
		return fail(err)
	}
	args := make([]any, 0, len(words))
	for _, w := range words {
		args = append(args, w)
	}
	inner.Config = map[string]any{"command": found.Path, "args": args}
	if n, set := config["oom_score_adj"]; set {
		inner.Config["oom_score_adj"] = n
	}
	t, err := d.exec.Start(ctx, &inner)
	if err != nil {
		return nil, err
	}
	own := owned{}
	if o.Yes("graceful_shutdown") {
		own.Monitor = filepath.Join(cfg.TaskDir, monitor)
	}
	machine, err := d.task(t, own)
	if err != nil {
		return nil, errors.Join(err, t.Stop(ctx, "", 0))
	}
	return machine, nil
}

// show has the task see what of the node the machine needs.
func (d *Driver) show(cfg *driver.TaskConfig, o taskconfig.Options) error {
	image, err := d.image(cfg, o)
	if err != nil {
		return err
	}
	if image != nil {
		cfg.Mounts = append(slices.Clone(cfg.Mounts), *image)
	}
	if o.Text("accelerator") == kvm {
		cfg.Devices = append(slices.Clone(cfg.Devices), driver.Device{HostPath: "/dev/kvm", Permissions: "rw"})
	}
	return nil
}

// Abort implements driver.Driver.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error {
	return d.exec.Abort(ctx, id, task, attempt)
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	var own owned
	if err := json.Unmarshal(h.State, &own); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "recover", "task "+strconv.Quote(h.Task))
	}
	t, err := d.exec.Recover(ctx, h)
	if err != nil {
		return nil, err
	}
	machine, err := d.task(t, own)
	if err != nil {
		return nil, err
	}
	return machine, nil
}

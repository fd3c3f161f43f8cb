// Package java owns the driver "java": a program for the Java machine of the node, in a root of its own. It finds the
// machine and writes its command line; the rest is the driver exec's. The driver manager imports it.
package java

import (
	"context"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/launched"
	"berth/internal/port/driver/program"
)

// Name of the driver in a job's task block.
const Name = "java"

// Driver implements driver.Driver.
type Driver struct {
	exec    *exec.Driver
	machine *program.Program
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver; its tasks are confined as those of isolated are. search is where the machine is looked for,
// as PATH is; empty: the agent's PATH.
func New(isolated *exec.Driver, search string) *Driver {
	return &Driver{exec: isolated.As(Name), machine: &program.Program{
		Driver:  Name,
		Name:    "java",
		Search:  search,
		Ask:     "-version",
		Read:    versions,
		Install: "install a Java runtime, such as the package default-jre-headless",
	}}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	info := d.exec.Info()
	info.Name, info.Schema = Name, schema(info.Schema)
	return info
}

// schema is what exec takes, with the program in another form.
func schema(of taskconfig.Schema) taskconfig.Schema {
	out := taskconfig.Schema{
		"jar_path":    {Kind: taskconfig.Text},
		"class":       {Kind: taskconfig.Text},
		"class_path":  {Kind: taskconfig.Text},
		"jvm_options": {Kind: taskconfig.Texts},
	}
	for name, f := range of {
		if name != "command" {
			out[name] = f
		}
	}
	return out
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) driver.Fingerprint {
	return d.machine.Fingerprint(ctx, d.exec)
}

// versions reads what java -version says. Lines of options that it picked up from the environment stand before.
func versions(out string) map[string]string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		_, rest, ok := strings.Cut(line, ` version "`)
		version, _, _ := strings.Cut(rest, `"`)
		if !ok || version == "" {
			continue
		}
		found := map[string]string{"version": version}
		for n, name := range []string{"runtime", "vm"} {
			if at := i + 1 + n; at < len(lines) {
				found[name] = strings.TrimSpace(lines[at])
			}
		}
		return found
	}
	return nil
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) {
		return nil, fault.Note(err, "start", "task "+strconv.Quote(cfg.Task)+" with driver java")
	}
	config, err := d.Info().Schema.Read(Name, cfg.Config)
	if err != nil {
		return fail(err)
	}
	machine := d.machine.Look(ctx, d.exec.System())
	if machine.Problem != nil {
		return fail(machine.Problem)
	}
	args, err := arguments(config)
	if err != nil {
		return fail(err)
	}
	inner := *cfg
	inner.Config = map[string]any{"command": machine.Path, "args": args}
	for name, value := range config {
		if _, own := schema(nil)[name]; !own && name != "args" {
			inner.Config[name] = value
		}
	}
	return d.exec.Start(ctx, &inner)
}

// Abort implements driver.Driver.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error {
	return d.exec.Abort(ctx, id, task, attempt)
}

// arguments are those of the machine: its options, the program, and what that gets.
func arguments(config map[string]any) ([]any, error) {
	text := func(name string) string { s, _ := config[name].(string); return s } // the schema says so
	jar, class := text("jar_path"), text("class")
	path := text("class_path")
	words := launched.Texts(config, "jvm_options")
	switch {
	case class != "": // with a jar, it is the one that is run of it
		if jar != "" && path != "" {
			path = jar + ":" + path
		} else if jar != "" {
			path = jar
		}
		if path != "" {
			words = append(words, "-cp", path)
		}
		words = append(words, class)
	case jar != "" && path != "":
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "", "config.class_path",
				"the Java machine ignores it beside a jar without a class"),
			"set class to the class of the jar that is run, or leave class_path out")
	case jar != "":
		words = append(words, "-jar", jar)
	default:
		return nil, fault.WithHint(fault.New(fault.Invalid, "", "config", "neither jar_path nor class is set"),
			`write jar_path = "local/app.jar", or class = "Main" with its class_path`)
	}
	var out []any
	for _, w := range append(words, launched.Texts(config, "args")...) {
		out = append(out, w)
	}
	return out, nil
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	return d.exec.Recover(ctx, h)
}

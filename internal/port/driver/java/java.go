// Package java owns the driver "java": a program for the Java machine of the node, in a root of its own. It finds the
// machine and writes its command line; the rest is the driver exec's. The driver manager imports it.
package java

import (
	"context"
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/launched"
)

// Name of the driver in a job's task block.
const Name = "java"

// Driver implements driver.Driver.
type Driver struct {
	exec *exec.Driver
	// search is the PATH in which the machine is looked for; empty: the agent's.
	search string

	mu    sync.Mutex
	found machine
}

var _ driver.Driver = (*Driver)(nil)

// machine is what was found of a Java machine.
type machine struct {
	path     string // without links, as tasks see it
	changed  time.Time
	version  string
	runtime  string
	machine  string
	problem  error
	detected bool
}

// New returns the driver; its tasks are confined as those of isolated are. search is where the machine is looked for,
// as PATH is; empty: the agent's PATH.
func New(isolated *exec.Driver, search string) *Driver {
	return &Driver{exec: isolated.As(Name), search: search}
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
	m := d.look(ctx)
	switch {
	case !m.detected:
		return driver.Fingerprint{Health: driver.Undetected, Description: m.problem.Error()}
	case m.problem != nil:
		return driver.Fingerprint{Health: driver.Unhealthy, Description: m.problem.Error()}
	}
	f := d.exec.Fingerprint(ctx)
	if f.Health != driver.Healthy {
		return f
	}
	attributes := map[string]string{
		"driver.java":         "1",
		"driver.java.version": m.version,
		"driver.java.runtime": m.runtime,
		"driver.java.vm":      m.machine,
	}
	for name, value := range f.Attributes {
		if option, ok := strings.CutPrefix(name, "driver."+exec.Name+"."); ok {
			attributes["driver."+Name+"."+option] = value
		}
	}
	f.Attributes = attributes
	return f
}

// look finds the machine. What it says of itself is asked once, as long as its file is the same.
func (d *Driver) look(ctx context.Context) machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	path, err := find(d.search)
	if err != nil {
		d.found = machine{problem: err}
		return d.found
	}
	st, err := os.Stat(path)
	if err == nil && d.found.problem == nil && d.found.path == path && d.found.changed.Equal(st.ModTime()) {
		return d.found
	}
	m := machine{path: path, detected: true, problem: err}
	if err == nil {
		m.changed = st.ModTime()
		m.problem = d.visible(path)
	}
	if m.problem == nil {
		m.problem = m.ask(ctx)
	}
	d.found = m
	return m
}

// visible refuses a machine that tasks do not see.
func (d *Driver) visible(path string) error {
	for _, dir := range d.exec.System() {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return fault.WithHint(fault.New(fault.Unsupported, "use", strconv.Quote(path), "tasks do not see it"),
		"install java below "+strings.Join(d.exec.System(), ", "))
}

// find looks for the machine in a PATH, and follows links: those in /etc are not there in a task.
func find(search string) (string, error) {
	if search == "" {
		search = os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := filepath.EvalSymlinks(filepath.Join(dir, "java"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fault.Wrap(err, fault.Unsupported, "find", "java")
		}
		return path, nil
	}
	return "", fault.WithHint(fault.New(fault.NotFound, "find", "java", "it is not in the PATH of the agent"),
		"install a Java runtime, such as the package default-jre-headless")
}

// patience is how long a machine may take to say what it is.
const patience = 10 * time.Second

// ask has the machine say what it is: three lines, on its standard error.
func (m *machine) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := osexec.CommandContext(ctx, m.path, "-version").CombinedOutput()
	if err != nil {
		return fault.Wrap(err, fault.Unsupported, "ask for its version", strconv.Quote(m.path))
	}
	m.version, m.runtime, m.machine = versions(string(out))
	if m.version == "" {
		return fault.New(fault.Unsupported, "read the version of", strconv.Quote(m.path),
			"it says none in double quotes")
	}
	return nil
}

// versions reads what java -version says. Lines of options that it picked up from the environment stand before.
func versions(out string) (version, runtime, vm string) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		_, rest, ok := strings.Cut(line, ` version "`)
		if !ok {
			continue
		}
		version, _, _ = strings.Cut(rest, `"`)
		if i+1 < len(lines) {
			runtime = strings.TrimSpace(lines[i+1])
		}
		if i+2 < len(lines) {
			vm = strings.TrimSpace(lines[i+2])
		}
		return version, runtime, vm
	}
	return "", "", ""
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
	m := d.look(ctx)
	if m.problem != nil {
		return fail(m.problem)
	}
	args, err := arguments(config)
	if err != nil {
		return fail(err)
	}
	inner := *cfg
	inner.Config = map[string]any{"command": m.path, "args": args}
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

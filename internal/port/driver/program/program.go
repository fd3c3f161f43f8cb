// Package program owns what drivers have in common whose tasks are run by a program of the node, in a root of their
// own: the program is found, tasks see it, and it says what it is. The drivers java and qemu import it.
package program

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
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// Program is one by which the tasks of a driver are run.
type Program struct {
	Driver string // of which driver
	Name   string // of its file
	// Search is where it is looked for, as PATH is; empty: the agent's PATH.
	Search string
	// Ask is the argument upon which it says what it is, and Read takes attributes of the node from that, by their
	// names without "driver.", and the driver's; none: it said nothing of use.
	Ask  string
	Read func(out string) map[string]string
	// Install is what to do where it is not there.
	Install string

	mu    sync.Mutex
	found Found
}

// Found is what a node has of a program.
type Found struct {
	Path       string // without links, as tasks see it
	Attributes map[string]string
	Problem    error // why it cannot be used
	Detected   bool  // it is there at all

	changed time.Time
}

// Look finds the program. What it says of itself is asked once, as long as its file is the same. system are the
// directories of the node that tasks see.
func (p *Program) Look(ctx context.Context, system []string) Found {
	p.mu.Lock()
	defer p.mu.Unlock()
	path, err := p.find()
	if err != nil {
		p.found = Found{Problem: err}
		return p.found
	}
	st, err := os.Stat(path)
	if err == nil && p.found.Problem == nil && p.found.Path == path && p.found.changed.Equal(st.ModTime()) {
		return p.found
	}
	f := Found{Path: path, Detected: true, Problem: err}
	if err == nil {
		f.changed = st.ModTime()
		f.Problem = p.visible(path, system)
	}
	if f.Problem == nil {
		f.Attributes, f.Problem = p.ask(ctx, path)
	}
	p.found = f
	return f
}

// visible refuses a program that tasks do not see.
func (p *Program) visible(path string, system []string) error {
	for _, dir := range system {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return fault.WithHint(fault.New(fault.Unsupported, "use", strconv.Quote(path), "tasks do not see it"),
		"install "+p.Driver+" below "+strings.Join(system, ", "))
}

// find looks for the program in a PATH, and follows links: those in /etc are not there in a task.
func (p *Program) find() (string, error) {
	search := p.Search
	if search == "" {
		search = os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := filepath.EvalSymlinks(filepath.Join(dir, p.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fault.Wrap(err, fault.Unsupported, "find", p.Name)
		}
		return path, nil
	}
	return "", fault.WithHint(fault.New(fault.NotFound, "find", p.Name, "it is not in the PATH of the agent"),
		p.Install)
}

// patience is how long a program may take to say what it is.
const patience = 10 * time.Second

// ask has the program say what it is, on its output or its standard error.
func (p *Program) ask(ctx context.Context, path string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := osexec.CommandContext(ctx, path, p.Ask).CombinedOutput()
	if err != nil {
		return nil, fault.Wrap(err, fault.Unsupported, "ask for its version", strconv.Quote(path))
	}
	attributes := p.Read(string(out))
	if len(attributes) == 0 {
		return nil, fault.New(fault.Unsupported, "read the version of", strconv.Quote(path),
			"it says none upon "+p.Ask)
	}
	return attributes, nil
}

// Fingerprint is what a driver finds on a node whose tasks are run by the program, and confined as those of isolated.
func (p *Program) Fingerprint(ctx context.Context, isolated *exec.Driver) driver.Fingerprint {
	found := p.Look(ctx, isolated.System())
	switch {
	case !found.Detected:
		return driver.Fingerprint{Health: driver.Undetected, Description: found.Problem.Error()}
	case found.Problem != nil:
		return driver.Fingerprint{Health: driver.Unhealthy, Description: found.Problem.Error()}
	}
	f := isolated.Fingerprint(ctx)
	if f.Health != driver.Healthy {
		return f
	}
	attributes := map[string]string{"driver." + p.Driver: "1"}
	for name, value := range found.Attributes {
		attributes["driver."+p.Driver+"."+name] = value
	}
	for name, value := range f.Attributes {
		if option, ok := strings.CutPrefix(name, "driver."+exec.Name+"."); ok {
			attributes["driver."+p.Driver+"."+option] = value
		}
	}
	f.Attributes = attributes
	return f
}

// Package cli owns the command line: what people type, what they read, and the exit codes that scripts rely on. It is a
// user of the public API like any other. Only cmd/berth imports it.
package cli

import (
	"context"
	"fmt"
	"io"
)

// Options is what the command line has of the world.
type Options struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Environ is the whole environment as NAME=value, for variables of jobs; nil means that of the process.
	Environ []string
	// Agent runs an agent; it is given the arguments after "agent" as they are and returns the exit code.
	Agent func(ctx context.Context, args []string) int
	// Plugins are the bundled plugins by name; each is given the arguments after its name.
	Plugins map[string]func(ctx context.Context, args []string) int
	Version string
}

// App is the command line.
type App struct {
	opts Options
}

// New makes the command line. It starts nothing.
func New(opts Options) *App { return &App{opts: opts} }

// Run runs one command, given without the name of the program, and returns the exit code. When ctx ends, so does the
// command.
func (a *App) Run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "agent" && a.opts.Agent != nil {
		return a.opts.Agent(ctx, args[1:])
	}
	if len(args) > 1 && args[0] == "plugin" && a.opts.Plugins[args[1]] != nil {
		return a.opts.Plugins[args[1]](ctx, args[2:])
	}
	fmt.Fprintln(a.opts.Stderr, "Error: there is no such command; there are agent and plugin")
	return 127
}

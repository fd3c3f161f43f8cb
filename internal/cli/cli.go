// Package cli owns the command line: what people type, what they read, and the exit codes that scripts rely on. It is a
// user of the public API like any other. Only cmd/berth imports it.
package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	"berth/internal/cli/cluster"
	"berth/internal/cli/kit"
	"berth/internal/cli/plugintest"
	"berth/internal/cli/setup"
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
	// Identities decides who the node of a data directory is; nil: nobody does.
	Identities cluster.Identities
	// DataDirs checks data directories; nil: nobody does.
	DataDirs cluster.DataDirs
	// PluginTests tests plugins of drivers and devices; nil: nobody does.
	PluginTests plugintest.Tester
	// SetUpConsul sets up the access lists of Consul.
	SetUpConsul setup.Consul
	Version     string
	// Dial connects to agents; nil means over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// App is the command line.
type App struct {
	opts Options
}

// New makes the command line. It starts nothing.
func New(opts Options) *App {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	return &App{opts: opts}
}

// Run runs one command, given without the name of the program, and returns the exit code. When ctx ends, so does the
// command.
func (a *App) Run(ctx context.Context, words []string) int {
	words = unalias(words)
	if len(words) > 0 && words[0] == "agent" && a.opts.Agent != nil {
		return a.opts.Agent(ctx, words[1:])
	}
	if len(words) > 1 && words[0] == "plugin" && a.opts.Plugins[words[1]] != nil {
		return a.opts.Plugins[words[1]](ctx, words[2:])
	}
	o := a.opts
	e := kit.New(o.Stdin, o.Stdout, o.Stderr, o.Getenv, o.Environ, o.Version)
	e.Dial = o.Dial
	defer e.Close()
	root := newRoot(e, o, slices.Concat(words, []string{""})[0])
	if len(words) > 0 && words[0] == "__complete" {
		for _, word := range complete(ctx, e, root, words[1:]) {
			e.Out.Text(word + "\n")
		}
		return 0
	}
	c, err := read(root, words)
	if err == nil {
		err = run(ctx, e, c)
	}
	var misused *kit.UsageError
	if errors.As(err, &misused) {
		err = misused.Hint(c.cmd)
	}
	if c.cmd.Failure != 0 {
		if exit := (*kit.Exit)(nil); err != nil && !errors.As(err, &exit) {
			err = &kit.Exit{Code: c.cmd.Failure, Err: err}
		}
	}
	return finish(ctx, e, err)
}

// run runs a command, or shows its help where it is asked for or a verb is missing.
func run(ctx context.Context, e *kit.Env, c call) error {
	switch {
	case c.help || c.cmd == c.cmd.Root():
		help(e.Out, c.cmd)
		return nil
	case c.cmd.Elsewhere():
		return kit.Usage("%s reads its flags itself: no flag may stand before it", c.cmd.Path())
	case c.cmd.Run == nil:
		help(e.Err, c.cmd)
		return &kit.Exit{Code: kit.ExitError}
	}
	if err := c.cmd.Check(c.args); err != nil {
		return err
	}
	if !c.cmd.Local {
		if err := e.Connect(); err != nil {
			return err
		}
	}
	return c.cmd.Run(ctx, c.args)
}

// finish says what went wrong and turns it into an exit code.
func finish(ctx context.Context, e *kit.Env, err error) int {
	if werr := e.Out.Failed(); werr != nil {
		if errors.Is(werr, syscall.EPIPE) || errors.Is(werr, io.ErrClosedPipe) {
			return kit.ExitError // the reader has seen enough
		}
		err = errors.Join(err, werr)
	}
	code, speak := kit.ExitCode(err)
	if speak && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		e.Err.Printf("%s\n", e.Err.Red("Interrupted"))
		return code
	}
	if speak {
		e.Err.Printf("%s\n", e.Err.Red("Error: "+kit.OneSentence(err.Error())))
	}
	return code
}

// newRoot builds the tree of commands, or what of it is at and around the one that is named.
func newRoot(e *kit.Env, o Options, name string) *kit.Command {
	root := &kit.Command{Use: "berth", Long: overview}
	e.AddGeneralFlags(root)
	return root.Add(commands(e, o, name)...)
}

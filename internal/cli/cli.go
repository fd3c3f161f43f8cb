// Package cli owns the command line: what people type, what they read, and the exit codes that scripts rely on. It is a
// user of the public API like any other. Only cmd/berth imports it.
package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
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
func (a *App) Run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "agent" && a.opts.Agent != nil {
		return a.opts.Agent(ctx, args[1:])
	}
	if len(args) > 1 && args[0] == "plugin" && a.opts.Plugins[args[1]] != nil {
		return a.opts.Plugins[args[1]](ctx, args[2:])
	}
	o := a.opts
	e := kit.New(o.Stdin, o.Stdout, o.Stderr, o.Getenv, o.Environ, o.Version)
	e.Dial = o.Dial
	defer e.Close()
	root := newRoot(e, o)
	args, err := normalize(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	return finish(ctx, e, err)
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

// newRoot builds the tree of commands.
func newRoot(e *kit.Env, o Options) *cobra.Command {
	root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true}
	root.SetIn(o.Stdin)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	e.AddGeneralFlags(root)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { help(e.Out, cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		help(e.Err, cmd)
		return nil
	})
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true}) // "-help" is what there is
	root.AddCommand(commands(e, o)...)
	root.InitDefaultCompletionCmd()
	for _, noun := range root.Commands() {
		nounAlone(e, noun)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// nounAlone makes a noun without a verb show its verbs, as the mistake that it is.
func nounAlone(e *kit.Env, noun *cobra.Command) {
	for _, c := range noun.Commands() {
		nounAlone(e, c)
	}
	if noun.HasSubCommands() && !noun.Runnable() {
		noun.RunE = func(cmd *cobra.Command, _ []string) error {
			help(e.Err, cmd)
			return &kit.Exit{Code: kit.ExitError}
		}
	}
}

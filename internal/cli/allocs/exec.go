package allocs

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"berth/api"
	"berth/internal/base/lifecycle"
	"berth/internal/cli/kit"

	"golang.org/x/term"
)

// beat is how often an idle session says that it lives.
const beat = 10 * time.Second

// exec is "alloc exec".
type exec struct {
	env    *kit.Env
	target target
	stdin  bool
	tty    bool
	escape string
}

func newExec(e *kit.Env) *kit.Command {
	x := &exec{env: e, target: target{env: e}}
	cmd := &kit.Command{
		Use:   "exec [flags] <alloc> <command> [argument...]",
		Short: "Run a command in a task",
		Long: `Runs a command where a task runs, with the task's files and environment, and exits with its exit code, as
a shell does: 127 when the command is not found there, 126 when it cannot be run, 128 and the signal's number when a
signal killed it; 1 when no session came about. On a terminal the command gets a terminal, too; then the escape
character at the beginning of a line, followed by a dot, ends the session.`,
		Example: `  berth alloc exec 4ff1d9c5 redis-cli info
  berth alloc exec -i -t -task redis 4ff1d9c5 /bin/sh`,
		Foreign: true,
	}
	fs := cmd.Flags()
	cmd.Run = func(ctx context.Context, args []string) error {
		_, interactive := e.InTerminal()
		if !fs.Given("tty") {
			x.tty = interactive && e.Out.Terminal()
		}
		command := args[1:]
		if len(command) > 1 && command[0] == "--" {
			command = command[1:]
		}
		return x.do(ctx, args[0], command)
	}
	x.target.addTo(cmd, true)
	fs.BoolVar(&x.stdin, "stdin", true, "pass the standard input on")
	fs.BoolVar(&x.tty, "tty", false, "give the command a terminal; by default when there is one here")
	fs.StringVar(&x.escape, "escape", "~",
		"`character` that ends a session at a terminal together with a dot; none: no such character")
	fs.Letters("i=stdin", "t=tty", "e=escape")
	return cmd
}

func (x *exec) do(ctx context.Context, arg string, command []string) error {
	a, err := x.target.find(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	task, err := taskOf(a, x.target.task)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := x.env.Client().Allocations().Exec(ctx, a.ID,
		api.ExecOptions{Task: task, Command: command, TTY: x.tty}, query(a))
	if err != nil {
		return kit.Doing(err, "run a command in", "allocation", kit.ID(a.ID, false))
	}
	defer session.Close()
	restore, err := x.raw()
	if err != nil {
		return err
	}
	code, err := x.converse(ctx, session)
	restore()
	switch {
	case err != nil:
		return kit.Doing(err, "run a command in", "allocation", kit.ID(a.ID, false))
	case code != 0:
		return &kit.Exit{Code: code}
	}
	return nil
}

// raw hands the keyboard to the command; the returned function takes it back.
func (x *exec) raw() (func(), error) {
	f, ok := x.env.InTerminal()
	if !ok || !x.tty || !x.stdin {
		return func() {}, nil
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(f.Fd()), old) }, nil // there is nobody to tell
}

// converse moves input and output until the command has ended.
func (x *exec) converse(ctx context.Context, session *api.ExecSession) (int, error) {
	g, gctx := lifecycle.NewGroup(ctx)
	in := make(chan *api.ExecStreamingInput)
	// Reading the standard input cannot be broken off, so that the reader is not waited for: it ends with the program.
	g.Go("input", func() error {
		x.input(gctx, in)
		return nil
	})
	g.Go("send", func() error {
		x.send(gctx, session, in)
		return nil
	})
	code, err := x.output(session)
	g.Stop()
	if ctx.Err() != nil && err != nil {
		return 0, ctx.Err()
	}
	return code, err
}

// input reads the keyboard or what is piped in.
func (x *exec) input(ctx context.Context, in chan<- *api.ExecStreamingInput) {
	give := func(m *api.ExecStreamingInput) bool {
		select {
		case in <- m:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var r io.Reader = x.env.In
	if !x.stdin || r == nil {
		give(&api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Close: true}})
		return
	}
	if _, ok := x.env.InTerminal(); ok && x.tty && len(x.escape) == 1 {
		r = &escapeReader{r: r, char: x.escape[0], atStart: true}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && !give(
			&api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Data: append([]byte(nil), buf[:n]...)}}) {
			return
		}
		if err != nil {
			give(&api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Close: true}})
			return
		}
	}
}

// send passes input, the terminal's size and heartbeats on. A failure shows at the receiving end.
func (x *exec) send(ctx context.Context, session *api.ExecSession, in <-chan *api.ExecStreamingInput) {
	resized := make(chan os.Signal, 1)
	if x.tty {
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
		resized <- syscall.SIGWINCH
	}
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		message := &api.ExecStreamingInput{}
		select {
		case <-ctx.Done():
			return
		case message = <-in:
		case <-resized:
			message.TTYSize = x.size()
			if message.TTYSize == nil {
				continue
			}
		case <-t.C:
		}
		if session.Send(message) != nil {
			return
		}
	}
}

func (x *exec) size() *api.TerminalSize {
	f, ok := x.env.InTerminal()
	if !ok {
		return nil
	}
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return nil
	}
	return &api.TerminalSize{Height: h, Width: w}
}

func (x *exec) output(session *api.ExecSession) (int, error) {
	for {
		m, err := session.Recv()
		if errors.Is(err, io.EOF) {
			return 0, errors.New("the agent ended the session without an exit code")
		}
		if err != nil {
			return 0, err
		}
		if m.Stdout != nil {
			if _, err := x.env.Out.Write(m.Stdout.Data); err != nil {
				return 0, err
			}
		}
		if m.Stderr != nil {
			if _, err := x.env.Err.Write(m.Stderr.Data); err != nil {
				return 0, err
			}
		}
		if m.Exited {
			if m.Result == nil {
				return 0, errors.New("the agent sent no exit code")
			}
			return m.Result.ExitCode, nil
		}
	}
}

// escapeReader ends its stream at the escape character and a dot at the beginning of a line. The character twice is the
// character.
type escapeReader struct {
	r       io.Reader
	char    byte
	atStart bool
	pending bool
}

func (e *escapeReader) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	buf := make([]byte, len(p)/2)
	n, err := e.r.Read(buf)
	out := p[:0]
	for _, b := range buf[:n] {
		switch {
		case e.pending && b == '.':
			return len(out), io.EOF
		case e.pending:
			e.pending = false
			if b != e.char {
				out = append(out, e.char)
			}
			out = append(out, b)
		case e.atStart && b == e.char:
			e.pending = true
			continue
		default:
			out = append(out, b)
		}
		e.atStart = b == '\r' || b == '\n'
	}
	return len(out), err
}

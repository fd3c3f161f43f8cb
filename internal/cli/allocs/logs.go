package allocs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/cli/kit"
)

// bytesPerLine is how long a line of a log is thought to be at most when the last n are wanted.
const bytesPerLine = 256

// excerpt are the flags that choose a part of a text.
type excerpt struct {
	follow, tail bool
	lines, bytes int64
}

func (x *excerpt) addTo(cmd *kit.Command, follow string) {
	fs := cmd.Flags()
	fs.BoolVar(&x.follow, "follow", false, follow)
	fs.BoolVar(&x.tail, "tail", false, "only the end; 10 lines unless -n or -c say otherwise")
	fs.Int64Var(&x.lines, "lines", 0, "only the last `n` lines")
	fs.Int64Var(&x.bytes, "bytes", 0, "only the last `n` bytes")
	fs.Letters("f=follow", "n=lines", "c=bytes")
}

func (x *excerpt) check() error {
	if x.lines < 0 || x.bytes < 0 || x.lines > 0 && x.bytes > 0 {
		return fault.New(fault.Invalid, "", "", "-n and -c take a positive number, and exclude each other")
	}
	if x.tail && x.lines == 0 && x.bytes == 0 {
		x.lines = 10
	}
	return nil
}

// ended is the error of a text that has ended: Ctrl-C is how following ends.
func (x *excerpt) ended(ctx context.Context, err error) error {
	if x.follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// logs is "alloc logs".
type logs struct {
	env    *kit.Env
	target target
	excerpt
	stdout, stderr bool
}

func newLogs(e *kit.Env) *kit.Command {
	l := &logs{env: e, target: target{env: e}}
	cmd := &kit.Command{
		Use:   "logs [flags] <alloc> [task]",
		Short: "Print the output of a task",
		Long: `Prints what a task wrote to its standard output, or with -stderr to its standard error. -f goes on with
what it writes until Ctrl-C, and without -stdout or -stderr follows both.`,
		Example: `  berth alloc logs 4ff1d9c5
  berth alloc logs -f -n 20 4ff1d9c5 redis
  berth logs -job -stderr db`,
		Run: func(ctx context.Context, args []string) error { return l.ended(ctx, l.do(ctx, args)) },
	}
	fs := cmd.Flags()
	l.target.addTo(cmd, true)
	l.excerpt.addTo(cmd, "go on with what is written")
	fs.BoolVar(&l.stdout, "stdout", false, "the standard output")
	fs.BoolVar(&l.stderr, "stderr", false, "the standard error")
	return cmd
}

func (l *logs) do(ctx context.Context, args []string) error {
	if err := l.check(); err != nil {
		return err
	}
	a, err := l.target.find(ctx, args[0], kit.Read)
	if err != nil {
		return err
	}
	name := l.target.task
	if len(args) > 1 {
		name = args[1]
	}
	task, err := taskOf(a, name)
	if err != nil {
		return err
	}
	switch {
	case l.stdout && l.stderr, l.follow && !l.stdout && !l.stderr:
		return l.both(ctx, a, task)
	case l.stderr:
		return l.stream(ctx, a, task, "stderr", l.env.Out)
	}
	out := &counted{w: l.env.Out}
	if err := l.stream(ctx, a, task, "stdout", out); err != nil || out.n > 0 || l.stdout {
		return err
	}
	l.elsewhere(ctx, a, task)
	return nil
}

// elsewhere says, where nothing was asked for by name and there is nothing, that there is something beside it: many
// servers write to their standard error alone.
func (l *logs) elsewhere(ctx context.Context, a *api.Allocation, task string) {
	o := api.LogOptions{Task: task, Type: "stderr", Origin: api.OriginEnd, Offset: 1}
	frames, err := l.env.Client().Allocations().Logs(ctx, a.ID, o, query(a))
	if err != nil {
		return // what was asked for was answered
	}
	defer frames.Close()
	if frame, err := frames.NextOrBeat(); err == nil && len(frame.Data) > 0 {
		l.env.Err.Notice("Task \"" + kit.Clean(task) + "\" wrote nothing to its standard output, but to its standard " +
			"error: give -stderr")
	}
}

// counted knows how much was written.
type counted struct {
	w io.Writer
	n int
}

func (c *counted) Write(data []byte) (int, error) {
	n, err := c.w.Write(data)
	c.n += n
	return n, err
}

// both prints output and error each to where it belongs.
func (l *logs) both(ctx context.Context, a *api.Allocation, task string) error {
	var writing sync.Mutex
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("stdout", func() error { return l.stream(gctx, a, task, "stdout", &serial{&writing, l.env.Out}) })
	g.Go("stderr", func() error { return l.stream(gctx, a, task, "stderr", &serial{&writing, l.env.Err}) })
	return g.Wait()
}

// serial keeps the pieces of two streams apart.
type serial struct {
	lock *sync.Mutex
	w    io.Writer
}

func (s *serial) Write(data []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.w.Write(data)
}

func (l *logs) stream(ctx context.Context, a *api.Allocation, task, kind string, w io.Writer) error {
	o := api.LogOptions{Task: task, Type: kind, Follow: l.follow, Origin: api.OriginStart}
	var last *lastLines
	switch {
	case l.bytes > 0:
		o.Origin, o.Offset = api.OriginEnd, l.bytes
	case l.lines > 0:
		o.Origin, o.Offset = api.OriginEnd, l.lines*bytesPerLine
		last = &lastLines{w: w, n: int(l.lines), most: int(o.Offset)}
		w = last
	}
	frames, err := l.env.Client().Allocations().Logs(ctx, a.ID, o, query(a))
	if err != nil {
		return kit.Doing(err, "read the "+kind+" of", fmt.Sprintf("task %q of allocation", task), kit.ID(a.ID, false))
	}
	defer frames.Close()
	if last == nil {
		return frames.CopyTo(w)
	}
	return last.copy(frames)
}

// lastLines holds back the beginning of a stream until its last lines are known.
type lastLines struct {
	w    io.Writer
	n    int
	most int
	held []byte
}

func (l *lastLines) Write(data []byte) (int, error) { return l.w.Write(data) }

// copy gathers what the log already has, prints its last lines, and passes on what comes after it. What it already has
// ends with the stream, or with as many bytes as were asked for, or with the first heartbeat.
func (l *lastLines) copy(frames *api.Frames) error {
	for {
		frame, err := frames.NextOrBeat()
		if errors.Is(err, io.EOF) {
			return l.flush()
		}
		if err != nil {
			return errors.Join(l.flush(), err)
		}
		l.held = append(l.held, frame.Data...)
		if frame.IsHeartbeat() || len(l.held) >= l.most {
			if err := l.flush(); err != nil {
				return err
			}
			return frames.CopyTo(l.w)
		}
	}
}

func (l *lastLines) flush() error {
	text := l.held
	end := len(bytes.TrimSuffix(text, []byte("\n")))
	for range l.n {
		end = bytes.LastIndexByte(text[:max(end, 0)], '\n')
		if end < 0 {
			break
		}
	}
	_, err := l.w.Write(text[end+1:])
	l.held = nil
	return err
}

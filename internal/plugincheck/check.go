// Package plugincheck owns what plugins of others are held to: checks that their authors run, each a promise of the
// public protocol that the agent relies on. The command line runs them on a command, and the conformance suites on the
// examples.
package plugincheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/pluginreport"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
)

// answerLimit bounds what a check waits for, and startLimit the first start of a plugin.
const (
	answerLimit = 30 * time.Second
	startLimit  = 10 * time.Second
)

// check is one promise. It returns what was found; an error: it is not kept.
type check struct {
	promise string
	run     func(ctx context.Context) (found string, err error)
}

// skipped is the error of a check that does not apply.
type skipped struct{ why string }

func (e *skipped) Error() string { return e.why }

// bench runs one plugin, as an agent does.
type bench struct {
	cfg pluginhost.Config
	dir string
}

// renew readies the bench for another run of an agent.
func (b *bench) renew() { b.cfg.Dirs = hostfs.NewDirectories(b.cfg.Log) }

func alive(pid int) bool { return pid > 0 && unix.Kill(pid, 0) == nil }

// newBench makes a directory for the plugin; remove takes it away.
func newBench(asked pluginreport.Asked, log *slog.Logger) (b *bench, remove func() error, err error) {
	path, err := exec.LookPath(asked.Command[0])
	if err != nil {
		return nil, nil, fault.WithHint(fault.New(fault.NotFound, "test", "plugin "+asked.Command[0],
			"there is no such program"), "name the plugin by its path")
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "plugin")
	if err != nil {
		return nil, nil, err
	}
	return &bench{dir: dir, cfg: pluginhost.Config{
		Block:  filepath.Base(path),
		Path:   path,
		Args:   asked.Command[1:],
		Values: asked.Config,
		Dir:    filepath.Join(dir, "state"),
		Log:    log,
	}}, func() error { return os.RemoveAll(dir) }, nil
}

// start begins a run of an agent with the plugin; the returned function ends it.
func (b *bench) start(ctx context.Context, run func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	g, gctx := lifecycle.NewGroup(ctx)
	dirs := b.cfg.Dirs
	g.Go("directories", func() error { return dirs.Run(gctx) })
	g.Go("plugin", func() error { return run(gctx) })
	return func() error {
		cancel()
		return g.Wait()
	}
}

// process is the plugin's process, as it is recorded for the next run of the agent.
func (b *bench) process() (pid int, err error) {
	text, err := os.ReadFile(filepath.Join(b.cfg.Dir, "process.json"))
	if err != nil {
		return 0, err
	}
	var r struct{ PID int }
	err = json.Unmarshal(text, &r)
	return r.PID, err
}

// kill ends the plugin's process without a warning.
func (b *bench) kill() error {
	pid, err := b.process()
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// said is the end of what the plugin said.
func (b *bench) said() string { return lastWords(filepath.Join(b.cfg.Dir, "stderr")) }

func lastWords(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	const last = 300
	return "; its last words: " + string(text[max(0, len(text)-last):])
}

// judge runs checks one after the other. Once the first has failed, the others have nothing to stand on.
func judge(ctx context.Context, r *pluginreport.Report, checks []check) {
	judgeWithin(ctx, r, answerLimit, checks)
}

// judgeWithin gives each check so long.
func judgeWithin(ctx context.Context, r *pluginreport.Report, limit time.Duration, checks []check) {
	for i, c := range checks {
		begun := time.Now()
		out := pluginreport.Check{Name: c.promise, Result: pluginreport.Passed}
		if i > 0 && r.Checks[0].Result == pluginreport.Failed {
			out.Result, out.Message = pluginreport.Skipped, "the plugin does not start"
			r.Add(out)
			continue
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		found, err := c.run(limited)
		cancel()
		out.Message, out.Took = found, time.Since(begun)
		if why := (*skipped)(nil); errors.As(err, &why) {
			out.Result, out.Message = pluginreport.Skipped, why.why
		} else if err != nil {
			out.Result, out.Message = pluginreport.Failed, err.Error()
		}
		r.Add(out)
	}
}

func broken(format string, args ...any) error { return fmt.Errorf(format, args...) }

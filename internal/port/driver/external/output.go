package external

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/pluginproto/driverpb"

	"golang.org/x/sys/unix"
)

// fifos are where an attempt of a task writes. They lie where no task can put something else in their place. As long as
// they are there, the plugin may know the attempt.
func (c Config) fifos(id ids.Alloc, name string, attempt int) (stdout, stderr string) {
	stem := c.stem(id, name) + strconv.Itoa(attempt)
	return stem + stdoutEnd, stem + ".stderr"
}

const stdoutEnd = ".stdout"

func (c Config) stem(id ids.Alloc, name string) string {
	return filepath.Join(c.outputsDir(), string(id)+"."+fileName.EncodeToString([]byte(name))) + "."
}

// fileName has the name of any task in that of a file.
var fileName = base64.RawURLEncoding

// kept lists the tasks of an alloc of which there are pipes.
func (c Config) kept(id ids.Alloc) (tasks []string, err error) {
	entries, err := os.ReadDir(c.outputsDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(err, fault.Internal, "look for", "tasks of alloc "+ids.Short(id))
	}
	for _, e := range entries {
		rest, of := strings.CutPrefix(e.Name(), string(id)+".")
		name, _, _ := strings.Cut(rest, ".")
		task, err := fileName.DecodeString(name)
		if of && err == nil && !slices.Contains(tasks, string(task)) {
			tasks = append(tasks, string(task))
		}
	}
	return tasks, nil
}

// Keeps implements driver.Keeper.
func (d *Driver) Keeps(id ids.Alloc) ([]string, error) { return d.cfg.kept(id) }

// Drop implements driver.Keeper.
func (d *Driver) Drop(ctx context.Context, id ids.Alloc) error {
	tasks, err := d.cfg.kept(id)
	for _, name := range tasks {
		err = errors.Join(err, d.Abort(ctx, id, name, 0))
	}
	return err
}

// outputGrace is how long what reads a task's output has to read what is left.
const outputGrace = 2 * time.Second

// closeOutput ends what reads the output of a task that is gone.
func (t *task) closeOutput(ctx context.Context) error {
	if t.output != nil {
		if err := t.output.Kill(ctx, "SIGTERM", outputGrace); err != nil && !fault.Has(err, fault.NotFound) {
			return fault.Note(err, "end what reads the output of", subject(t.id))
		}
	}
	return t.d.cfg.forget(t.handle.Alloc, t.handle.Task, t.handle.Attempt)
}

// collector is what reads a task's output, for as long as the alloc's shim lives. Its program is the shim's own.
func collector(cfg *driver.TaskConfig, config *driverpb.TaskConfig) *driver.LaunchSpec {
	return &driver.LaunchSpec{
		AllocID: string(cfg.Alloc),
		Task:    cfg.Task,
		Attempt: cfg.Attempt,
		Argv:    []string{"/proc/self/exe", "collect", config.GetStdoutPath(), config.GetStderrPath()},
		Dir:     "/",
		Logs:    cfg.Logs,
		Resources: driver.Resources{
			CPUShares: 10,
			MemoryMB:  64,
			PIDs:      32,
		},
	}
}

func makeFIFOs(stdout, stderr string) error {
	for _, path := range []string{stdout, stderr} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return fault.Wrap(err, fault.Internal, "make", "FIFO "+strconv.Quote(path))
		}
	}
	return nil
}

// forget removes the files of an attempt of which nothing lives. That by which it is looked for goes last.
func (c Config) forget(id ids.Alloc, name string, attempt int) error {
	stdout, stderr := c.fifos(id, name, attempt)
	for _, path := range []string{c.asked(id, name, attempt), stderr, stdout} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fault.Wrap(err, fault.Internal, "remove", strconv.Quote(path))
		}
	}
	return nil
}

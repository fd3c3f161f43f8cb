package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/pinned"
	"berth/internal/port/driver/docker/spec"
)

// Start implements driver.Driver. An attempt that an agent started which died before it wrote that down is found by
// its container's name; an earlier one that is still there is ended.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	there, done := d.whileThere(ctx)
	defer done()
	t, err := d.start(there, cfg)
	if err != nil {
		err = d.cutOff(ctx, there, cfg, err)
		return nil, fault.Note(err, "start", subject(cfg.Task)+" with driver docker")
	}
	d.hold(t)
	return t, nil
}

func (d *Driver) start(ctx context.Context, cfg *driver.TaskConfig) (*task, error) {
	config, err := spec.Schema.Read(Name, cfg.Config)
	if err != nil {
		return nil, err
	}
	o := spec.Options(config)
	body, err := d.cfg.Create(cfg, o)
	if err != nil {
		return nil, err
	}
	if err := d.there(ctx, 0); err != nil {
		return nil, err
	}
	t := &task{d: d, st: state{TTY: body.Tty, Logs: cfg.Logs}, handle: driver.TaskHandle{
		Driver:  Name,
		Version: stateVersion,
		Alloc:   cfg.Alloc,
		Task:    cfg.Task,
		Attempt: cfg.Attempt,
	}}
	c, err := d.earlier(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if c == nil {
		c, err = d.made(ctx, cfg, o, body)
	} else if cfg.Network != nil {
		err = d.removeHolder(ctx, cfg.Alloc, cfg.Task)
	}
	if err != nil {
		return nil, err
	}
	t.st.Container, t.st.Image = c.ID, c.Image
	t.handle.PID, t.handle.Started = c.State.Pid, c.State.StartedAt
	d.images.Use(c.Image, c.ID)
	if err := errors.Join(t.readOutput(ctx, ""), t.encode()); err != nil {
		err = errors.Join(err, d.undo(ctx, c.ID))
		d.images.Free(c.Image, c.ID)
		return nil, err
	}
	return t, nil
}

// Abort implements driver.Driver: the container has the name of its task, and goes with what reads its output.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, name string, attempt int) error {
	err := d.there(ctx, recoverPatience)
	if err == nil {
		err = d.removeTask(ctx, id, name)
	}
	if err == nil {
		err = d.cfg.Launcher.Abort(ctx, id, name, attempt)
	}
	return fault.Note(err, "abort", subject(name))
}

// earlier finds the container of this attempt, if it was started, and removes those of others.
func (d *Driver) earlier(ctx context.Context, cfg *driver.TaskConfig) (*dockerapi.Container, error) {
	c, err := d.api.Inspect(ctx, containerName(cfg.Alloc, cfg.Task))
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.Config.Labels[spec.LabelAlloc] != string(cfg.Alloc) {
		return nil, notOurs(c)
	}
	same := c.Config.Labels[spec.LabelAttempt] == strconv.Itoa(cfg.Attempt)
	if same && (c.State.Running || c.State.Ended() && !c.State.StartedAt.IsZero() && c.State.Error == "") {
		return c, nil
	}
	return nil, d.removeContainer(ctx, c.ID)
}

// made runs the container. Where somebody removed its image before it was made, as a cleaning of the node's images does
// with one that no container uses yet, that is fetched anew, once.
func (d *Driver) made(
	ctx context.Context, cfg *driver.TaskConfig, o spec.Options, body *dockerapi.Create,
) (*dockerapi.Container, error) {
	c, err := d.run(ctx, cfg, o, body)
	if !errors.As(err, new(imageGone)) {
		return c, err
	}
	if body, err = d.cfg.Create(cfg, o); err != nil { // anew: the other's mounts led to places that were given back
		return nil, err
	}
	return d.run(ctx, cfg, o, body)
}

// imageGone is the error of a container whose image was removed since it was found. It will pass by trying again.
type imageGone struct{ error }

func (e imageGone) Unwrap() error { return e.error }

// run makes and starts the container; nothing of it is left when that fails.
func (d *Driver) run(
	ctx context.Context, cfg *driver.TaskConfig, o spec.Options, body *dockerapi.Create,
) (*dockerapi.Container, error) {
	image, release, err := d.images.For(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	defer release()
	body.Image = image.ID
	leave, err := d.join(ctx, cfg, body)
	if err != nil {
		return nil, err
	}
	c, err := d.beginHeld(ctx, cfg, body, cmp.Or(body.User, image.Config.User))
	if failed := leave(); failed != nil {
		d.warn("what a container joined its network by could not be removed; it is tried again", cfg.Alloc, failed)
	}
	if err == nil {
		d.images.Use(c.Image, c.ID)
	}
	return c, err
}

// beginHeld begins a container whose mounts lead to what was looked at, whatever tasks of its alloc do meanwhile.
func (d *Driver) beginHeld(
	ctx context.Context, cfg *driver.TaskConfig, body *dockerapi.Create, user string,
) (*dockerapi.Container, error) {
	name := containerName(cfg.Alloc, cfg.Task)
	release, err := d.places().Hold(name, cfg.AllocDir, body.HostConfig.Mounts, cfg.Logs.Dir)
	if err != nil {
		return nil, err
	}
	c, err := d.begin(ctx, cfg, body, user)
	if failed := release(); failed != nil {
		d.warn("what a container's mounts were held at could not be given back; the next agent does it", cfg.Alloc,
			failed)
	}
	return c, err
}

func (d *Driver) places() pinned.Places {
	return pinned.Places{Dir: filepath.Join(d.cfg.Dir, "mounts")}
}

// begin creates and starts a container.
func (d *Driver) begin(
	ctx context.Context, cfg *driver.TaskConfig, body *dockerapi.Create, user string,
) (*dockerapi.Container, error) {
	id, err := d.create(ctx, containerName(cfg.Alloc, cfg.Task), cfg.Alloc, body)
	if fault.Has(err, fault.NotFound) {
		err = fault.Wrap(imageGone{err}, fault.Unavailable, "", "its image was removed meanwhile")
	}
	if err != nil {
		return nil, d.refused(cfg, body, err)
	}
	fail := func(err error) (*dockerapi.Container, error) { return nil, errors.Join(err, d.undo(ctx, id)) }
	if err := d.own(ctx, cfg, id, user); err != nil {
		return fail(err)
	}
	if err := d.api.Start(ctx, id); err != nil {
		return fail(d.refused(cfg, body, err))
	}
	c, err := d.api.Inspect(ctx, id)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// undo removes a container whose start failed.
func (d *Driver) undo(ctx context.Context, id string) error {
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	if err := d.removeContainer(free, id); err != nil {
		return errors.Join(errMayRun, err)
	}
	return nil
}

// refused says of a container that could not be made what the job's author needs to know.
func (d *Driver) refused(cfg *driver.TaskConfig, body *dockerapi.Create, err error) error {
	text := err.Error()
	command := ""
	if len(body.Entrypoint) > 0 {
		command = body.Entrypoint[0]
	} else if len(body.Cmd) > 0 {
		command = body.Cmd[0]
	}
	for _, c := range []struct{ says, means string }{
		{"executable file not found", "not found in the image"},
		{"no such file or directory", "not found in the image, or its interpreter or loader is not there"},
		{"permission denied", "not executable"},
		{"is a directory", "a directory"},
	} {
		if strings.Contains(text, "exec: ") && strings.Contains(text, c.says) {
			return fault.Wrap(err, fault.Invalid, "", fmt.Sprintf("command %q is %s", command, c.means))
		}
	}
	for _, says := range []string{"unable to find user", "no matching entries in passwd", "unable to find group"} {
		if strings.Contains(text, says) {
			return fault.Wrap(err, fault.Invalid, "", "user "+strconv.Quote(cfg.User))
		}
	}
	return err
}

// own gives the task's directories to the user that it runs as: only the image knows who that is.
func (d *Driver) own(ctx context.Context, cfg *driver.TaskConfig, id, user string) error {
	if user == "" || os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := d.numbers(ctx, id, user)
	if err != nil {
		return err
	}
	for _, name := range []string{"local", "secrets", "tmp"} {
		if err := giveWithin(cfg.TaskDir, name, uid, gid); err != nil {
			return fault.Wrap(err, fault.Internal, "give to user "+strconv.Quote(user), name)
		}
	}
	return nil
}

// giveWithin changes the owner of a directory, and of no other that a link leads to.
func giveWithin(root, name string, uid, gid int) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was used
	if err := r.Lchown(name, uid, gid); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

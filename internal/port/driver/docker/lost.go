package docker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/spec"
)

// errMayRun: what a start has made could not be removed.
var errMayRun = errors.New("it may run")

// whileThere is a context that ends also when the daemon is lost: one that is frozen answers no call, and ends none.
func (d *Driver) whileThere(ctx context.Context) (there context.Context, done func()) {
	there, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts++
	number := d.starts
	d.starting[number] = cancel
	return there, func() {
		d.mu.Lock()
		delete(d.starting, number)
		d.mu.Unlock()
		cancel(nil)
	}
}

// cutOff judges why a start has failed. One whose daemon was lost is no fault of the task's; but then, or where what it
// has made could not be removed, the container may run: that is settled before anybody relies on it.
func (d *Driver) cutOff(ctx, there context.Context, cfg *driver.TaskConfig, err error) error {
	mayRun := errors.Is(err, errMayRun)
	lost := there.Err() != nil || dockerapi.Cut(err) && fault.KindOf(err) != fault.NotReady // it was there at first
	if ctx.Err() != nil || !lost && !mayRun {
		return err
	}
	if why := context.Cause(there); why != nil {
		err = why
	}
	d.tell(cfg.Alloc, cfg.Task, "Docker was lost while the container started: what may run of it is ended first", nil)
	for failures := 1; ; failures++ {
		left := d.Abort(ctx, cfg.Alloc, cfg.Task, cfg.Attempt)
		if left == nil {
			break
		}
		if !again.Sleep(ctx, failures) {
			return ctx.Err() // and the start is aborted, or taken up
		}
	}
	if !lost {
		return err
	}
	return fault.Wrap(err, fault.NotReady, "use", "driver "+Name)
}

// removeTask removes the container of a task, and what a start that was cut off has left of its way into the network.
func (d *Driver) removeTask(ctx context.Context, id ids.Alloc, name string) error {
	c, err := d.api.Inspect(ctx, containerName(id, name))
	switch {
	case fault.Has(err, fault.NotFound):
		err = nil
	case err == nil && c.Config.Labels[spec.LabelAlloc] == string(id):
		err = d.removeContainer(ctx, c.ID)
	}
	return errors.Join(err, d.removeHolder(ctx, id, name))
}

// removeHolder removes what puts a task's container into its network.
func (d *Driver) removeHolder(ctx context.Context, id ids.Alloc, name string) error {
	c, err := d.api.Inspect(ctx, holderName(id, name))
	switch {
	case fault.Has(err, fault.NotFound):
		return nil
	case err == nil && c.Config.Labels[labelHolder] != "" && c.Config.Labels[spec.LabelAlloc] == string(id):
		return d.removeContainer(ctx, c.ID)
	}
	return err
}

// namePatience is how long it is waited for a container of which a daemon keeps the name and says nothing.
const namePatience = 20 * time.Second

// create creates a container of an alloc. Its name may be taken by one that the daemon is creating for an agent that
// has died: it is in no answer until it is whole, and then nobody starts it. It is waited for, and removed.
func (d *Driver) create(ctx context.Context, name string, id ids.Alloc, body *dockerapi.Create) (string, error) {
	until := time.Now().Add(namePatience)
	for {
		created, err := d.api.Create(ctx, name, body)
		if !fault.Has(err, fault.Conflict) {
			return created, err
		}
		c, failed := d.api.Inspect(ctx, name)
		switch {
		case failed == nil && c.Config.Labels[spec.LabelAlloc] != string(id):
			return "", notOurs(c)
		case failed == nil:
			failed = d.removeContainer(ctx, c.ID)
		case fault.Has(failed, fault.NotFound):
			failed = nil
		}
		if failed != nil {
			return "", failed
		}
		if time.Now().After(until) {
			return "", fault.Wrap(err, fault.NotReady, "create", "container "+strconv.Quote(name))
		}
		if !retry.Sleep(ctx, nameAgain) {
			return "", ctx.Err()
		}
	}
}

// nameAgain is how long it is waited before a name is tried again.
const nameAgain = 100 * time.Millisecond

// notOurs is the error of a name that somebody else's container has.
func notOurs(c *dockerapi.Container) error {
	return fault.WithHint(fault.New(fault.Conflict, "", "container "+strconv.Quote(c.Name),
		"it is there, and not Berth's"), "remove it or give it another name")
}

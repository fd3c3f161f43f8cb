package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver/docker/spec"
)

// Rests between looks at the containers that there are.
const (
	sweepEvery = 5 * time.Minute
	// youngest is how old a container is that nobody works with: a start may be under way.
	youngest = 5 * time.Minute
)

// tend looks after what is left of containers and images, for as long as the daemon is there.
func (d *Driver) tend(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("images", func() error { return d.images.Collect(gctx) })
	g.Go("sweep", func() error {
		for !d.cfg.SweepOff && d.cfg.Ended != nil && d.cfg.Node != nil {
			if err := d.sweep(gctx); err != nil && gctx.Err() == nil {
				d.cfg.Log.Warn("the containers of this node could not be looked at", logkey.Driver, Name,
					logkey.Error, err)
			}
			if !retry.Sleep(gctx, sweepEvery) {
				break
			}
		}
		return nil
	})
	return g.Wait()
}

// sweep removes containers that this node's agent made, of allocs that have ended here: an agent that died may have
// left them. Those of others carry another node's name, and what no record knows is kept.
func (d *Driver) sweep(ctx context.Context) error {
	all, err := d.api.List(ctx, spec.LabelNode+"="+d.cfg.Node().ID)
	if err != nil {
		return err
	}
	for _, c := range all {
		id := ids.Alloc(c.Labels[spec.LabelAlloc])
		held := c.Labels[labelHolder] != ""
		d.mu.Lock()
		_, used := d.tasks[c.ID]
		d.mu.Unlock()
		if used || id == "" || !held && (d.cfg.KeepContainers || !d.cfg.Ended(id)) ||
			held && time.Since(time.Unix(c.Created, 0)) < youngest {
			continue
		}
		d.cfg.Log.Warn("removing a container of an allocation that has ended", logkey.Driver, Name, logkey.Alloc, id,
			"container", c.ID)
		if err := d.removeContainer(ctx, c.ID); err != nil {
			d.warn("a container of an allocation that has ended could not be removed; it is tried again", id, err)
		}
	}
	return nil
}

// Keeps implements driver.Keeper: the containers of an alloc, by the daemon's word. A node whose daemon has no socket
// has none; what one that is stopped without its socket left running is not seen.
func (d *Driver) Keeps(id ids.Alloc) ([]string, error) {
	if _, err := os.Stat(d.cfg.Socket); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	d.mu.Lock()
	list, err := d.list, d.why
	d.mu.Unlock()
	var all []dockerapi.Listed
	if list != nil {
		all, err = list(spec.LabelAlloc + "=" + string(id))
	}
	var tasks []string
	for _, c := range all {
		tasks = append(tasks, c.Labels[spec.LabelTask])
	}
	return tasks, fault.Note(err, "look for", "containers of allocation "+ids.Short(id))
}

// Drop implements driver.Keeper.
func (d *Driver) Drop(ctx context.Context, id ids.Alloc) error {
	if err := d.there(ctx, recoverPatience); err != nil {
		return err
	}
	all, err := d.api.List(ctx, spec.LabelAlloc+"="+string(id))
	for _, c := range all {
		err = errors.Join(err, d.removeContainer(ctx, c.ID))
	}
	return fault.Note(err, "end", "containers of allocation "+ids.Short(id))
}

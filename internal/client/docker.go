package client

import (
	"path/filepath"

	"berth/internal/base/ids"
	"berth/internal/client/allocs"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/spec"
	"berth/internal/port/driver/external"
)

// docker makes the driver of containers.
func (c *Client) docker(d docker.Config, table *allocs.Table) driver.Driver {
	d.Launcher, d.Log = c.launcher, c.log
	d.Program = c.cfg.Shims.Program
	d.Dir = filepath.Join(c.cfg.DataDir, "drivers", docker.Name)
	// Called when tasks start, and then all parts are there.
	d.Node = func() spec.Node { return spec.Node{ID: string(c.link.Node()), Name: c.cfg.Name} }
	d.MHz = func() int64 { return c.host.Node().Resources.CPUShares }
	d.Ended = func(id ids.Alloc) bool { return table.Standing(id) == shim.Ended }
	d.Events = func(e docker.Event) { emit(table, e.Alloc, e.Task, driverEvent(external.Event(e))) }
	return docker.New(d)
}

// emit adds an event to a task that is there.
func emit(table *allocs.Table, id ids.Alloc, task string, e *alloc.TaskEvent) {
	if r := table.Runner(id); r != nil {
		if t, err := r.Task(task); err == nil {
			t.Emit(e)
		}
	}
}

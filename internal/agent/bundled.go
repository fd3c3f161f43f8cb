package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"berth/internal/agent/bundled"
	"berth/internal/base/fault"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/hostfs"
)

// LocalCSI is the id of the bundled storage plugin.
const LocalCSI = bundled.PluginID

// VolumesDir is where the bundled plugin keeps its volumes, beneath the data_dir.
const VolumesDir = "volumes"

func (a *Agent) volumes() string { return a.dir(VolumesDir) }

// bundled is what registers the job of the bundled storage plugin, where it is asked for. It comes before the node.
func (a *Agent) bundled() func(context.Context) error {
	if !*a.cfg.Client.LocalCSI || a.client == nil {
		return func(context.Context) error { return nil }
	}
	if !orDev(a.cfg.plugin(rawexec.Name).Options().Enabled, a.cfg.dev) {
		a.log.Warn("local_csi is set, and the bundled storage plugin does not run on this node: it needs the driver "+
			"raw_exec, which is disabled here", "hint", `write enabled = true into the block config of `+
			`plugin "raw_exec", or take local_csi away`)
	}
	p := &bundled.Plugin{
		Servers: a.conn,
		Node:    a.client.ID(),
		Region:  a.cfg.Region,
		Version: a.version,
		Dir:     a.volumes(),
		Log:     a.log,
	}
	p.Begin()
	return func(ctx context.Context) error { return errors.Join(p.Run(ctx, a.client.Registered()), p.Watch(ctx)) }
}

// removeTree removes a directory that this run made. It stops at mounts: what is mounted below belongs to somebody.
func removeTree(dir string) error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	if left := table.Beneath(dir); len(left) > 0 {
		return fault.New(fault.Busy, "remove", dir, left[0].Path+" is still mounted")
	}
	if dir == "/" || filepath.Dir(dir) == "/" {
		return fault.New(fault.Invalid, "remove", dir, "it is no temporary directory")
	}
	return os.RemoveAll(dir)
}

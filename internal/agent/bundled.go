package agent

import (
	"context"

	"berth/internal/agent/bundled"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver/rawexec"
)

// LocalCSI is the id of the bundled storage plugin.
const LocalCSI = bundled.PluginID

// VolumesDir is where the bundled plugin keeps its volumes, beneath the data_dir.
const VolumesDir = "volumes"

func (a *Agent) volumes() string { return a.dir(VolumesDir) }

// bundled prepares what an agent does for the bundled storage plugin, where that is asked for, and returns it: its job
// is registered, and the growth of its volumes watched. Call it before the node runs.
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
		Pool:    a.cfg.Client.NodePool,
		Region:  a.cfg.Region,
		Version: a.version,
		Dir:     a.volumes(),
		Log:     a.log,
	}
	p.Begin()
	return func(ctx context.Context) error {
		return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
			"register": func(ctx context.Context) error { return p.Run(ctx, a.client.Registered()) },
			"growth":   p.Watch,
		})
	}
}

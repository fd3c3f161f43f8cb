package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

func newAgentInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "agent-info [flags]",
		Short:   "Show statistics of the agent",
		Example: "  berth agent-info",
		Run: func(ctx context.Context, _ []string) error {
			out, err := e.Client().Cluster().Self(ctx)
			return formats.Show(e.Out, out, kit.Doing(err, "ask", "the agent", ""), func() {
				for _, group := range slices.Sorted(maps.Keys(out.Stats)) {
					e.Out.Printf("%s\n", e.Out.Bold(kit.Clean(group)))
					for _, key := range slices.Sorted(maps.Keys(out.Stats[group])) {
						e.Out.Printf("  %s = %s\n", kit.Clean(key), kit.Clean(out.Stats[group][key]))
					}
				}
			})
		},
	})
}

// logLevels are the levels that a log may be followed from.
var logLevels = []string{"trace", "debug", "info", "warn", "error"}

func newMonitor(e *kit.Env) *kit.Command {
	var o api.MonitorOptions
	var node string
	cmd := &kit.Command{
		Use:     "monitor [flags]",
		Short:   "Follow the log of an agent",
		Long:    "Prints what an agent logs from now on, until Ctrl-C.",
		Example: "  berth monitor -log-level debug\n  berth monitor -node-id 8f3a11c0",
		Run: func(ctx context.Context, _ []string) error {
			if !slices.Contains(logLevels, o.Level) {
				return kit.Usage("-log-level is %s, not %q", strings.Join(logLevels, ", "), o.Level)
			}
			if node != "" {
				ref, err := e.Node(ctx, node, kit.Read)
				if err != nil {
					return err
				}
				o.NodeID = ref.ID
			}
			frames, err := e.Client().Cluster().Monitor(ctx, o)
			if err == nil {
				defer frames.Close()
				err = frames.CopyTo(e.Out)
			}
			if ctx.Err() != nil {
				return nil // Ctrl-C is how following ends
			}
			return kit.Doing(err, "follow", "the log", "")
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Level, "log-level", "info", "`least` level: "+strings.Join(logLevels, ", "))
	fs.StringVar(&node, "node-id", "", "the log of this `node` instead of the agent's")
	fs.StringVar(&o.ServerID, "server-id", "", "the log of this `server`")
	fs.BoolVar(&o.JSON, "json", false, "lines in JSON")
	fs.BoolVar(&o.Location, "log-include-location", false, "with file and line")
	return cmd
}

func newVersion(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  berth version",
		Local:   true,
		Run: func(ctx context.Context, _ []string) error {
			version := e.Version
			if version == "" {
				version = "unknown"
			}
			e.Out.Printf("Berth %s\n", version)
			return nil
		},
	}
}

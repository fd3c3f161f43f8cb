package nodes

import (
	"context"

	"berth/internal/cli/kit"
)

func newConfig(e *kit.Env) *kit.Command {
	var servers, update bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "config -servers|-update-servers [flags] [address...]",
		Short: "Show the servers that a node asks, or have it ask others",
		Long: `Shows the servers that the node of the agent asks, in their order: those of its configuration, and those
that the cluster has told.

With -update-servers the node of an agent without a server asks the ones that are named in place of those of its
configuration, until the agent is started again. It is for a node that finds no server any more, because all have moved.
A node that reaches one server hears of all of them, and remembers that. An agent with a server asks its own.`,
		Example: "  berth node config -servers\n  berth node config -update-servers 10.0.0.7:4647 10.0.0.8:4647",
	}
	cmd.Run = func(ctx context.Context, args []string) error {
		switch {
		case servers == update:
			return kit.Usage("give either -servers or -update-servers")
		case update && len(args) == 0:
			return kit.Usage("name the servers: host:port of their TLS ports")
		case servers && len(args) > 0:
			return kit.Usage("-servers shows them; to name others: -update-servers")
		}
		if update {
			if err := e.Client().Cluster().UseServers(ctx, args); err != nil {
				return kit.Doing(err, "change", "the servers of the agent's node", "")
			}
		}
		out, err := e.Client().Cluster().NodeServers(ctx)
		return formats.Show(e.Out, out, kit.Doing(err, "list", "the servers of the agent's node", ""), func() {
			for _, addr := range out {
				e.Out.Printf("%s\n", kit.Clean(addr))
			}
			if len(out) == 0 {
				e.Out.Printf("No servers\n")
			}
		})
	}
	cmd.Flags().BoolVar(&servers, "servers", false, "show them")
	cmd.Flags().BoolVar(&update, "update-servers", false, "have the node ask those that are named")
	return formats.AddTo(cmd)
}

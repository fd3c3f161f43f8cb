package cluster

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newMembers(e *kit.Env) *cobra.Command {
	var verbose bool
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:     "members [flags]",
		Short:   "List the servers",
		Example: "  berth server members",
		Args:    kit.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			out, err := c.Cluster().Members(cmd.Context())
			if err != nil {
				return kit.Doing(err, "list", "servers", "")
			}
			if formats.Wanted() {
				return formats.Print(e.Out, out)
			}
			if len(out.Members) == 0 {
				e.Out.Printf("No servers\n")
				return nil
			}
			leader, err := c.Cluster().Leader(cmd.Context(), "")
			if err != nil {
				e.Err.Printf("%s\n", e.Err.Yellow("Nobody says who leads: "+kit.OneSentence(err.Error())))
			}
			members(e, out.Members, leader, verbose)
			return nil
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "tags, too")
	cmd.Flags().BoolVar(&verbose, "detailed", false, "the same as -verbose")
	formats.AddTo(cmd)
	return cmd
}

func members(e *kit.Env, list []*api.AgentMember, leader string, verbose bool) {
	header := []string{"Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"}
	if verbose {
		header = append(header, "Tags")
	}
	slices.SortFunc(list, func(a, b *api.AgentMember) int { return strings.Compare(a.Name, b.Name) })
	var rows [][]string
	for _, m := range list {
		port := strconv.Itoa(int(m.Port))
		leads := leader == net.JoinHostPort(m.Addr, port) || leader == net.JoinHostPort(m.Addr, m.Tags["port"])
		row := []string{m.Name, m.Addr, port, m.Status, strconv.FormatBool(leads), m.Tags["raft_vsn"], m.Tags["build"], m.Tags["dc"], m.Tags["region"]}
		if verbose {
			var tags []string
			for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
				tags = append(tags, k+"="+m.Tags[k])
			}
			row = append(row, strings.Join(tags, ","))
		}
		rows = append(rows, row)
	}
	e.Out.Table(header, rows)
}

func newAgentInfo(e *kit.Env) *cobra.Command {
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:     "agent-info [flags]",
		Short:   "Show statistics of the agent",
		Example: "  berth agent-info",
		Args:    kit.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			out, err := c.Cluster().Self(cmd.Context())
			if err != nil {
				return kit.Doing(err, "ask", "the agent", "")
			}
			if formats.Wanted() {
				return formats.Print(e.Out, out)
			}
			for _, group := range slices.Sorted(maps.Keys(out.Stats)) {
				e.Out.Printf("%s\n", e.Out.Bold(kit.Clean(group)))
				for _, key := range slices.Sorted(maps.Keys(out.Stats[group])) {
					e.Out.Printf("  %s = %s\n", kit.Clean(key), kit.Clean(out.Stats[group][key]))
				}
			}
			return nil
		},
	}
	formats.AddTo(cmd)
	return cmd
}

func newMonitor(e *kit.Env) *cobra.Command {
	var o api.MonitorOptions
	var node string
	cmd := &cobra.Command{
		Use:     "monitor [flags]",
		Short:   "Follow the log of an agent",
		Long:    "Prints what an agent logs from now on, until Ctrl-C.",
		Example: "  berth monitor -log-level debug\n  berth monitor -node-id 8f3a11c0",
		Args:    kit.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			if node != "" {
				ref, err := e.Node(cmd.Context(), node, kit.Read)
				if err != nil {
					return err
				}
				o.NodeID = ref.ID
			}
			frames, err := c.Cluster().Monitor(cmd.Context(), o)
			if err == nil {
				defer frames.Close()
				err = frames.CopyTo(e.Out)
			}
			if cmd.Context().Err() != nil {
				return nil // Ctrl-C is how following ends
			}
			return kit.Doing(err, "follow", "the log", "")
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Level, "log-level", "info", "`least` level: trace, debug, info, warn, error")
	fs.StringVar(&node, "node-id", "", "the log of this `node` instead of the agent's")
	fs.StringVar(&o.ServerID, "server-id", "", "the log of this `server`")
	fs.BoolVar(&o.JSON, "json", false, "lines in JSON")
	fs.BoolVar(&o.Location, "log-include-location", false, "with file and line")
	return cmd
}

func newVersion(e *kit.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  berth version",
		Args:    kit.Args(),
		RunE: func(*cobra.Command, []string) error {
			version := e.Version
			if version == "" {
				version = "unknown"
			}
			e.Out.Printf("Berth %s\n", version)
			return nil
		},
	}
}

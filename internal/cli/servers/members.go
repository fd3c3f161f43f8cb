package servers

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

func newMembers(e *kit.Env) *kit.Command {
	var verbose bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "members [flags]",
		Short:   "List the servers",
		Example: "  berth server members",
		Run: func(ctx context.Context, _ []string) error {
			out, err := e.Client().Cluster().Members(ctx)
			return formats.Show(e.Out, out, kit.Doing(err, "list", "servers", ""), func() {
				if len(out.Members) == 0 {
					e.Out.Printf("No servers\n")
					return
				}
				leader, err := e.Client().Cluster().Leader(ctx, "")
				if err != nil {
					e.Err.Notice("Nobody says who leads: " + kit.OneSentence(err.Error()))
				}
				members(e, out.Members, leader, verbose)
			})
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "tags, too")
	cmd.Flags().BoolVar(&verbose, "detailed", false, "the same as -verbose")
	return formats.AddTo(cmd)
}

func members(e *kit.Env, list []*api.AgentMember, leader string, verbose bool) {
	header := []string{"Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"}
	if verbose {
		header = append(header, "Tags")
	}
	slices.SortFunc(list, func(a, b *api.AgentMember) int { return strings.Compare(a.Name, b.Name) })
	kit.List(e.Out, list, "servers", header, func(m *api.AgentMember) []string {
		port := strconv.Itoa(int(m.Port))
		leads := m.Status != "left" && // another one may be at its address now
			(leader == net.JoinHostPort(m.Addr, port) || leader == net.JoinHostPort(m.Addr, m.Tags["port"]))
		row := []string{m.Name, m.Addr, port, m.Status, strconv.FormatBool(leads), m.Tags["raft_vsn"], m.Tags["build"],
			m.Tags["dc"], m.Tags["region"]}
		if verbose {
			var tags []string
			for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
				tags = append(tags, k+"="+m.Tags[k])
			}
			row = append(row, strings.Join(tags, ","))
		}
		return row
	})
}

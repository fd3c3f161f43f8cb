// Package servers owns the commands about the servers that keep the cluster's log. Only package cluster imports it.
package servers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("server", "Look at servers, and remove them", newMembers(e), newForceLeave(e))
}

// Raft are the tools for those who keep the log.
func Raft(e *kit.Env) *kit.Command {
	cmd := &kit.Command{Use: "raft", Short: "Look at the servers that keep the log, and change them"}
	return cmd.Add(newListPeers(e), newRemovePeer(e), newTransfer(e))
}

func newListPeers(e *kit.Env) *kit.Command {
	var o api.QueryOptions
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "list-peers [flags]",
		Short:   "List the servers that keep the log",
		Example: "  berth operator raft list-peers",
		Run: func(ctx context.Context, _ []string) error {
			out, err := e.Client().Operator().RaftConfiguration(ctx, &o)
			return formats.Show(e.Out, out, kit.Doing(err, "list", "servers", ""), func() {
				kit.List(e.Out, out.Servers, "servers", peerColumns, peerRow)
			})
		},
	}
	cmd.Flags().BoolVar(&o.Stale, "stale", false, "as any server knows them, also without a leader")
	return formats.AddTo(cmd)
}

var peerColumns = []string{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}

func peerRow(s *api.RaftServer) []string {
	state := "follower"
	if s.Leader {
		state = "leader"
	}
	return []string{s.Node, s.ID, s.Address, state, strconv.FormatBool(s.Voter), s.RaftProtocol}
}

// forGood says what removing a server means.
const forGood = `The server is out for good: it is not asked for a majority any more, is refused by the others, and
stops when it hears of it. Its name stays taken. To bring the machine back, give the agent another name, move the
directory server of its data_dir away, and let it join with a token. The node beside it, with its tasks, is not
touched.`

func newRemovePeer(e *kit.Env) *kit.Command {
	var id, addr string
	cmd := &kit.Command{
		Use:     "remove-peer [flags]",
		Short:   "Take a server out of the cluster, for good",
		Long:    forGood,
		Example: "  berth operator raft remove-peer -peer-id db2.global",
		Run: func(ctx context.Context, _ []string) error {
			if (id == "") == (addr == "") {
				return kit.Usage(`name the server: -peer-id ID or -peer-address ADDRESS, as ` +
					`"berth operator raft list-peers" shows it`)
			}
			name, remove := id, e.Client().Operator().RemovePeer
			if id == "" {
				name, remove = addr, e.Client().Operator().RemovePeerAt
			}
			if err := remove(ctx, name); err != nil {
				return unlessListed(kit.Doing(err, "remove", "server", name))
			}
			e.Out.Printf("Removed server %s\n", kit.Clean(name))
			return nil
		},
	}
	cmd.Flags().StringVar(&id, "peer-id", "", "`id` of the server")
	cmd.Flags().StringVar(&addr, "peer-address", "", "its `address`, host:port, in place of the id")
	return cmd
}

// unlessListed is the error with the way out, where no server is as it was named: the API says that in words that its
// clients know.
func unlessListed(err error) error {
	var status *api.StatusError
	if errors.As(err, &status) && strings.Contains(status.Body, "was not found in the Raft configuration") {
		return fault.WithHint(err, `"berth operator raft list-peers" lists the servers`)
	}
	return err
}

func newTransfer(e *kit.Env) *kit.Command {
	var id string
	cmd := &kit.Command{
		Use:   "transfer-leadership [flags]",
		Short: "Have another server lead",
		Long: `Has the server that leads give the leadership to another one: the one that is named, or the one that has
most of the log. Calls wait for the moment that it takes.`,
		Example: "  berth operator raft transfer-leadership -peer-id db2.global",
		Run: func(ctx context.Context, _ []string) error {
			if err := e.Client().Operator().TransferLeadership(ctx, id); err != nil {
				if id == "" {
					return kit.Doing(err, "give the leadership to", "another server", "")
				}
				return kit.Doing(err, "give the leadership to", "server", id)
			}
			if id == "" {
				e.Out.Printf("Another server leads\n")
				return nil
			}
			e.Out.Printf("Server %s leads\n", kit.Clean(id))
			return nil
		},
	}
	cmd.Flags().StringVar(&id, "peer-id", "", "`id` of the server that is to lead")
	return cmd
}

func newForceLeave(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "force-leave <server>",
		Short:   "Take a server out of the cluster, for good",
		Long:    forGood,
		Example: "  berth server force-leave db2.global",
		Run: func(ctx context.Context, args []string) error {
			members, err := e.Client().Cluster().Members(ctx)
			if err != nil {
				return kit.Doing(err, "remove", "server", args[0])
			}
			if !slices.ContainsFunc(members.Members, func(m *api.AgentMember) bool { return m.Name == args[0] }) {
				return kit.Fail(fault.NotFound, "see their names with: berth server members",
					"remove server %q: no server has this name", kit.Clean(args[0]))
			}
			return kit.Doing(e.Client().Cluster().ForceLeave(ctx, args[0]), "remove", "server", args[0])
		},
	}
}

// Autopilot shows how the servers are, and says how they keep themselves.
func Autopilot(e *kit.Env) *kit.Command {
	cmd := &kit.Command{Use: "autopilot", Short: "Look at the health of the servers, and say how they keep themselves"}
	return cmd.Add(newHealth(e), newGetConfig(e), newSetConfig(e))
}

func newHealth(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "health [flags]",
		Short: "Show how the servers are",
		Long: `Shows each server as the one that leads sees it, and how many may fail yet before nothing is written any
more. One is well that answers within the threshold and lacks few entries of the log, as "berth operator autopilot
get-config" shows them.`,
		Example: "  berth operator autopilot health",
		Run: func(ctx context.Context, _ []string) error {
			out, err := e.Client().Operator().AutopilotHealth(ctx)
			return formats.Show(e.Out, out, kit.Doing(err, "ask for", "the health of the servers", ""), func() {
				e.Out.Printf("Healthy: %t\nFailure Tolerance: %d\nLeader: %s\n\n", out.Healthy, out.FailureTolerance,
					kit.Clean(out.Leader))
				kit.List(e.Out, out.Servers, "servers", healthColumns, healthRow)
				for _, s := range out.Servers {
					if s.Reason != "" {
						e.Out.Printf("\n%s is not healthy: %s\n", kit.Clean(s.Name), kit.Clean(s.Reason))
					}
				}
			})
		},
	}
	return formats.AddTo(cmd)
}

var healthColumns = []string{"ID", "Name", "Address", "SerfStatus", "Version", "Leader", "Voter", "Healthy",
	"LastContact", "LastTerm", "LastIndex", "StableSince"}

func healthRow(s *api.ServerHealth) []string {
	return []string{s.ID, s.Name, s.Address, s.SerfStatus, s.Version, strconv.FormatBool(s.Leader),
		strconv.FormatBool(s.Voter), strconv.FormatBool(s.Healthy), s.LastContact,
		strconv.FormatUint(s.LastTerm, 10), strconv.FormatUint(s.LastIndex, 10), kit.At(s.StableSince)}
}

// Package joining owns the commands that let agents on other machines into the cluster. Only package cluster imports
// it.
package joining

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "join-token",
		Short: "Let agents on other machines join the cluster",
		Long: `A join token lets the node or the server of an agent on another machine into this cluster. It carries the
hash of the cluster's root certificate: who joins with it makes sure, before it sends anything, that it speaks to this
cluster.`,
	}
	return cmd.Add(newCreate(e), newList(e), newRevoke(e))
}

func newCreate(e *kit.Env) *kit.Command {
	req := api.JoinTokenRequest{Role: api.JoinAsNode}
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "create [flags]",
		Short: "Make a join token, and print it",
		Long: `Prints the token alone on a line, so that it goes into a file; it is shown this once. Write it to a file
that root alone may read, on the machine that is to join, and name the file there in the block client of the agent's
configuration: join_token_file = "/etc/berth/join-token", beside servers = ["10.0.0.1:4647"] with the address of this
server's port for nodes. When the node has joined the file is not needed any more. With -role server it is for a server:
it is named in the block server then, beside server_join { retry_join = ["10.0.0.1:4647"] }.`,
		Example: `  ( umask 077 && berth operator join-token create > join-token )
  berth operator join-token create -uses 20 -ttl 24h -node-pool edge
  berth operator join-token create -role server`,
		Run: func(ctx context.Context, _ []string) error {
			t, err := e.Client().Operator().CreateJoinToken(ctx, &req)
			return formats.Show(e.Out, t, kit.Doing(err, "make", "a join token", ""), func() {
				e.Out.Text(t.Token + "\n")
				e.Err.Printf("%s can join with it until %s\n", kit.Count(t.Uses, t.Role, t.Role+"s"), kit.At(t.Expires))
			})
		},
	}
	cmd.Flags().StringVar(&req.Role, "role", api.JoinAsNode, "`role` of who joins: node or server")
	cmd.Flags().StringVar(&req.NodePool, "node-pool", "",
		"the one `pool` in which nodes that join with it may be; any that they name, if not given")
	cmd.Flags().IntVar(&req.Uses, "uses", 1, "the `count` of those who may join with it")
	cmd.Flags().DurationVar(&req.TTL, "ttl", time.Hour, "the `duration` for which it is good, 720h at most")
	return formats.AddTo(cmd)
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List the join tokens that there are, and who came in by them",
		Example: "  berth operator join-token list\n  berth operator join-token list -json",
		Run: func(ctx context.Context, _ []string) error {
			all, _, err := e.Client().Operator().JoinTokens(ctx, nil)
			return formats.Show(e.Out, all, kit.Doing(err, "list", "the join tokens", ""), func() {
				columns := []string{"ID", "Role", "Node Pool", "Uses Left", "Expires", "Made", "By", "Joined"}
				kit.List(e.Out, all, "join tokens", columns, func(t *api.JoinToken) []string {
					pool, uses := cmp.Or(t.NodePool, kit.None), strconv.Itoa(t.Uses)
					return []string{t.ID, t.Role, pool, uses, kit.At(t.Expires), kit.At(t.Created), t.By, joined(t)}
				})
			})
		},
	}
	return formats.AddTo(cmd)
}

func newRevoke(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "revoke <id>",
		Short:   "Take a join token back: nobody joins with it any more",
		Long:    "Who has joined with it stays in the cluster.",
		Example: "  berth operator join-token revoke mfzs3ojvgq2ts",
		Run: func(ctx context.Context, args []string) error {
			err := e.Client().Operator().RevokeJoinToken(ctx, args[0])
			if err == nil {
				e.Out.Printf("Join token %s is revoked\n", kit.Clean(args[0]))
			}
			return kit.Doing(err, "revoke", "join token", args[0])
		},
	}
}

// mostNamed bounds who is named in a line; -json names all.
const mostNamed = 5

// joined names who came in by a token.
func joined(t *api.JoinToken) string {
	if len(t.Joined) == 0 {
		return kit.None
	}
	var names []string
	for i, m := range t.Joined {
		if i == mostNamed {
			names = append(names, strconv.Itoa(len(t.Joined)-mostNamed)+" more")
			break
		}
		name := m.ID
		if t.Role == api.JoinAsNode {
			name = kit.ID(m.ID, false)
		}
		if m.Denied {
			name += " (denied)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Package authority owns the commands over the root by which agents believe each other. Only package cluster imports
// it.
package authority

import (
	"context"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "ca",
		Short: "See and replace the root of the certificates between agents",
		Long: `Agents believe each other by certificates that the cluster issues and renews itself. They come from one
root, whose key lies sealed in the servers' state. It is replaced without an interruption: the root before vouches for
the new one, and both are trusted until every node has learned it.`,
	}
	return cmd.Add(newList(e), newRotate(e), newFinish(e))
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "list [flags]",
		Short: "List the roots that are trusted, and the nodes that do not know the present one",
		Long: `A node that is named here has not shown yet that it has the present root on its disk: it is away, or runs
an older version. A node that is connected shows it within a heartbeat. One that was purged or collected, and may come
back for 90 days, is named as forgotten.`,
		Example: "  berth operator ca list",
		Run: func(ctx context.Context, _ []string) error {
			ca, _, err := e.Client().Operator().CA(ctx, nil)
			return formats.Show(e.Out, ca, kit.Doing(err, "list", "the roots", ""), func() { show(e, ca) })
		},
	}
	return formats.AddTo(cmd)
}

func show(e *kit.Env, ca *api.CA) {
	kit.List(e.Out, ca.Roots, "roots", []string{"Root", "State", "Created", "Trusted Until", "By"},
		func(r *api.CARoot) []string {
			if r.Until == nil {
				return []string{r.KeyID, "active", kit.At(r.Created), "", r.By}
			}
			return []string{r.KeyID, "former", kit.At(r.Created), kit.At(*r.Until), r.By}
		})
	if len(ca.Roots) > 1 {
		e.Out.Printf("\nNodes that have not shown that they know the active root\n")
		kit.List(e.Out, ca.Unaware, "such nodes", []string{"ID", "Name", "State"}, func(n *api.CANode) []string {
			if n.Forgotten {
				return []string{n.NodeID, n.Name, "forgotten"}
			}
			return []string{n.NodeID, n.Name, "listed"}
		})
	}
}

func newRotate(e *kit.Env) *kit.Command {
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "rotate [flags]",
		Short: "Replace the root by a new one",
		Long: `Makes a root with a key of its own. The one before vouches for it, and stays trusted for 90 days, or
until "berth operator ca finish". Nodes that are connected learn the new root within a heartbeat, others when they come
back; no connection ends, and no task notices. Join tokens of before go on for as long.

Do so when the key may have been seen; then make new data keys, too: berth operator root keyring rotate -full.`,
		Example: `  berth operator ca rotate
  berth operator ca list`,
		Run: func(ctx context.Context, _ []string) error {
			if err := e.Confirm(yes, "Is the root of the cluster to be replaced?", "give -yes"); err != nil {
				return err
			}
			err := e.Client().Operator().RotateCA(ctx, nil)
			if err == nil {
				e.Out.Printf("The root is replaced; " +
					"\"berth operator ca list\" shows which nodes have yet to learn it\n")
			}
			return kit.Doing(err, "rotate", "the cluster's authority", "")
		},
	}
	yes.AddTo(cmd)
	return cmd
}

func newFinish(e *kit.Env) *kit.Command {
	var req api.CAFinishRequest
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "finish [flags]",
		Short: "Have the roots before the present one forgotten now",
		Long: `What a root before the present one has issued is believed no more, connections that stand on it end,
and join tokens of before let nobody in. Nodes that know the present root connect anew at once. It is refused while
nodes have not shown that they know it, also such as were purged and may come back, and names them. With -force and a
-reason it is done all the same: each of these nodes, when it comes back, says that it needs a join token, and is in by
its key then.`,
		Example: `  berth operator ca finish
  berth operator ca finish -force -reason "the key was stolen"`,
		Run: func(ctx context.Context, _ []string) error {
			if req.Force && strings.TrimSpace(req.Reason) == "" {
				return kit.Usage("-reason is missing")
			}
			question := "Are the roots before the present one to be forgotten?"
			if err := e.Confirm(yes, question, "give -yes"); err != nil {
				return err
			}
			err := e.Client().Operator().FinishCA(ctx, &req, nil)
			if err == nil {
				e.Out.Printf("The present root alone is trusted\n")
			}
			return kit.Doing(err, "forget", "the former root", "")
		},
	}
	cmd.Flags().BoolVar(&req.Force, "force", false, "also where nodes would be lost by that")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why you say so (a `text`); it is recorded")
	yes.AddTo(cmd)
	return cmd
}

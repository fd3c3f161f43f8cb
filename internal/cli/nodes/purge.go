// Package nodes owns the commands over what a node is to its cluster: its record, its metadata, and the servers that it
// asks. Only package cluster imports it.
package nodes

import (
	"context"
	"fmt"

	"berth/internal/cli/kit"
)

// Verbs are those of the noun node.
func Verbs(e *kit.Env) []*kit.Command {
	meta := &kit.Command{
		Use:   "meta",
		Short: "Look at the metadata of a node, and change it at run time",
		Long: `Metadata are words by which jobs choose nodes: constraint { attribute = "${meta.rack}" … }. What is
said here lies over client { meta { … } } of the node's configuration, is kept by the node, and outlives its agent.
Jobs are placed by it at once; what runs stays where it is.`,
	}
	return []*kit.Command{newPurge(e), meta.Add(newMetaRead(e), newMetaApply(e)), newConfig(e)}
}

func newPurge(e *kit.Env) *kit.Command {
	var yes kit.Agreement
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "purge [flags] <node>",
		Short: "Forget a node that is down and holds nothing",
		Long: `Has the servers forget a node: it is listed no more. They do so by themselves a day after it went down.

It is refused while the node answers, and while anything is there that could not be undone, or found, without it:
allocations not known to have ended, claims, attachments, mounts, orphans, volumes that live on it alone. The refusal
names each, and what ends it; of a machine that is dead that is mostly "berth node replace".

What the servers keep for 90 days is who the node was: its agent can come back, by its key and without a token, and is
the same node. To let it in no more, say "berth node deny" first.`,
		Example: "  berth node purge 8f3a11c0",
		IDs:     "nodes",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Node(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			short := kit.ID(ref.ID, false)
			if err := e.Confirm(yes, fmt.Sprintf("Is node %s to be forgotten?", short), "give -yes"); err != nil {
				return err
			}
			out, _, err := e.Client().Nodes().Purge(ctx, ref.ID, nil)
			return formats.Show(e.Out, out, kit.Doing(err, "purge", "node", ref.ID), func() {
				e.Out.Printf("Node %q is forgotten\n", ref.ID)
				for _, id := range out.EvalIDs {
					e.Out.Printf("Evaluation %q looks at a system job\n", kit.ID(id, false))
				}
			})
		},
	}
	yes.AddTo(cmd)
	return formats.AddTo(cmd)
}

// Package denials owns the commands by which a person lets a node in no more, or again. Only package cluster imports
// it.
package denials

import (
	"context"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// Verbs are those of the noun node.
func Verbs(e *kit.Env) []*kit.Command { return []*kit.Command{newDeny(e), newAllow(e), newList(e)} }

// word is a command by which a person says of a node whether it is let in.
type word struct {
	env    *kit.Env
	reason string
	yes    kit.Agreement
}

func (w *word) flags(cmd *kit.Command) *kit.Command {
	cmd.Flags().StringVar(&w.reason, "reason", "", "why you say so (a `text`); it is recorded")
	w.yes.AddTo(cmd)
	return cmd
}

func newDeny(e *kit.Env) *kit.Command {
	w := &word{env: e}
	return w.flags(&kit.Command{
		Use:   "deny [flags] <node>",
		Short: "Let a node in no more",
		Long: `Takes a node's way into the cluster: its connections end, it gets no certificate any more, and its key is
refused under every id. Do so when a machine was stolen or taken over.

Nothing on the machine is ended by that: the servers reach it no more. The node goes down, as one that is silent does,
and its allocations and volumes are treated like those of any node that is down: claims wait for a proof that nothing
writes any more. When the machine is off for good, "berth node replace" is that proof. "berth node allow" is the way
back.`,
		Example: `  berth node deny -reason "the machine was stolen" 8f3a11c0`,
		IDs:     "nodes",
		Run: func(ctx context.Context, args []string) error {
			return w.say(ctx, args[0], "deny", "Is node %s to be let in no more?", "Node %s is denied\n",
				e.Client().Nodes().Deny)
		},
	})
}

func newAllow(e *kit.Env) *kit.Command {
	w := &word{env: e}
	return w.flags(&kit.Command{
		Use:   "allow [flags] <node>",
		Short: "Let a node in again that is denied",
		Long: `Takes a denial back: the node is let in again, by the key that it has. Its agent asks by itself, within
half a minute. A node whose record was collected meanwhile is named by its whole id, as "berth node denials" shows it.`,
		Example: `  berth node allow -reason "the machine was found, and checked" 8f3a11c0`,
		IDs:     "nodes",
		Run: func(ctx context.Context, args []string) error {
			return w.say(ctx, args[0], "allow", "Is node %s to be let in again?", "Node %s is let in again\n",
				e.Client().Nodes().Allow)
		},
	})
}

func (w *word) say(
	ctx context.Context, arg, verb, question, done string,
	call func(context.Context, string, *api.NodeDenialRequest, *api.WriteOptions) error,
) error {
	if strings.TrimSpace(w.reason) == "" {
		return kit.Usage("-reason is missing")
	}
	ref, err := w.env.Node(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	short := kit.ID(ref.ID, false)
	if err := w.env.Confirm(w.yes, strings.Replace(question, "%s", short, 1), "give -yes"); err != nil {
		return err
	}
	err = call(ctx, ref.ID, &api.NodeDenialRequest{Reason: w.reason}, nil)
	if err == nil {
		w.env.Out.Printf(done, short)
	}
	return kit.Doing(err, verb, "node", ref.ID)
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "denials [flags]",
		Short:   "List the nodes that are denied",
		Example: "  berth node denials",
		Run: func(ctx context.Context, _ []string) error {
			all, _, err := e.Client().Nodes().Denials(ctx, nil)
			return formats.Show(e.Out, all, kit.Doing(err, "list", "the nodes that are denied", ""), func() {
				kit.List(e.Out, all, "denied nodes", []string{"ID", "Name", "Since", "By", "Reason"},
					func(d *api.NodeDenial) []string {
						return []string{d.NodeID, d.Name, kit.At(d.Since), d.By, d.Reason}
					})
			})
		},
	}
	return formats.AddTo(cmd)
}

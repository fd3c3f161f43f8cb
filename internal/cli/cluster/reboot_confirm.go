package cluster

import (
	"context"

	"berth/api"
	"berth/internal/cli/kit"
)

// rebootConfirm is "node reboot-confirm".
type rebootConfirm struct {
	env     *kit.Env
	reason  string
	yes     kit.Agreement
	formats kit.Formats
}

func newRebootConfirm(e *kit.Env) *kit.Command {
	r := &rebootConfirm{env: e}
	cmd := &kit.Command{
		Use:   "reboot-confirm [flags] <node>",
		Short: "Vouch that nothing else runs under a node's identity",
		Long: `When a node comes back with another boot, and nothing proves that it is the same machine, its volumes may
still be written by the boot before: they stay claimed, and their allocations wait. So they do while a second agent acts
as the node.

With this command you vouch that nothing runs under the node's identity but the agent that the servers obey now; of one
that is silent, that it does not run any more either, so that the next agent that registers takes its place. Look before
you say so: two writers destroy a file system. Who said it, when and why stays with the node.`,
		Example: `  berth node reboot-confirm -reason "the old virtual machine is deleted" 8f3a11c0`,
		IDs:     "nodes",
		Run:     func(ctx context.Context, args []string) error { return r.do(ctx, args[0]) },
	}
	cmd.Flags().StringVar(&r.reason, "reason", "", "the `reason` for which you are certain; it is recorded")
	r.yes.AddTo(cmd)
	return r.formats.AddTo(cmd)
}

func (r *rebootConfirm) do(ctx context.Context, arg string) error {
	if r.reason == "" {
		return kit.Usage("-reason is missing")
	}
	ref, err := r.env.Node(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	question := "Does nothing run as node " + kit.ID(ref.ID, false) + " but the agent that the servers obey?"
	if err := r.env.Confirm(r.yes, question, "give -yes"); err != nil {
		return err
	}
	out, _, err := r.env.Client().Nodes().RebootConfirm(ctx, ref.ID,
		&api.NodeRebootConfirmRequest{Reason: r.reason}, nil)
	return r.formats.Show(r.env.Out, out, kit.Doing(err, "confirm the reboot of", "node", ref.ID), func() {
		if out.Resolved != "" {
			r.env.Out.Printf("Resolved: %s\n", out.Resolved)
		}
		if out.NextAccepted {
			r.env.Out.Printf("The next agent that registers as node %q is accepted\n", ref.ID)
		}
	})
}

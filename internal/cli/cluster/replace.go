package cluster

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// nodeReplace is "node replace".
type nodeReplace struct {
	env     *kit.Env
	reason  string
	yes     kit.Agreement
	formats kit.Formats
}

func newNodeReplace(e *kit.Env) *kit.Command {
	r := &nodeReplace{env: e}
	cmd := &kit.Command{
		Use:   "replace [flags] <old> <new>",
		Short: "Say that a machine is dead and which node does its work",
		Long: `Takes your word that the machine of a node will not come back: its allocations are lost, its claims end,
so that their volumes go to other nodes, and volumes that live on it alone can be forgotten with "berth volume
deregister -force -reason REASON VOLUME". Your word is kept in the history of each volume. A machine that runs on and
writes to a volume that another node got destroys its data: make sure that it is off.

It is refused while the node answers.`,
		Example: `  berth node replace -reason "burnt down" 8f3a11c0 91b2c3d4`,
		IDs:     "nodes",
		Run:     func(ctx context.Context, args []string) error { return r.do(ctx, args[0], args[1]) },
	}
	cmd.Flags().StringVar(&r.reason, "reason", "", "why it is certain that the machine is dead (a `text`)")
	r.yes.AddTo(cmd)
	return r.formats.AddTo(cmd)
}

func (r *nodeReplace) do(ctx context.Context, old, by string) error {
	if r.reason == "" {
		return kit.Usage("-reason is missing")
	}
	dead, err := r.env.Node(ctx, old, kit.Change)
	if err != nil {
		return err
	}
	heir, err := r.env.Node(ctx, by, kit.Change)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Is the machine of node %s dead for good?", kit.ID(dead.ID, false))
	if err := r.env.Confirm(r.yes, question, "give -yes"); err != nil {
		return err
	}
	out, _, err := r.env.Client().Nodes().Replace(ctx, dead.ID,
		&api.NodeReplaceRequest{NewNodeID: heir.ID, Reason: r.reason}, nil)
	return r.formats.Show(r.env.Out, out, kit.Doing(err, "replace", "node", dead.ID), func() {
		r.env.Out.Printf("Node %q is replaced by %q: %s ended\n", dead.ID, heir.ID,
			kit.Count(out.Claims, "claim", "claims"))
		for _, v := range out.LostVolumes {
			namespace, id, _ := strings.Cut(v, "/")
			r.env.Out.Printf("Volume %q lived on it alone; forget it with: berth volume deregister -force "+
				"-reason <reason> -namespace %s %s\n", v, namespace, id)
		}
	})
}

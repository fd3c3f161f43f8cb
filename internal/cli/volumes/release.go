package volumes

import (
	"context"
	"fmt"
	"strings"

	"berth/internal/cli/kit"
)

// release is "volume release".
type release struct {
	env    *kit.Env
	node   string
	reason string
	yes    kit.Agreement
}

func newRelease(e *kit.Env) *kit.Command {
	r := &release{env: e}
	cmd := &kit.Command{
		Use:   "release [flags] <volume>",
		Short: "Say that nothing is left of a volume on a node",
		Long: `When the processes that used a volume are gone and nothing of it is mounted on the node any more, but its
plugin keeps answering an error to the unstaging, the claim waits: only the plugin knows whether it is done. This takes
your word in its place. The reason is kept in the history of the volume. If the word is wrong, two nodes write to one
volume.

It is refused while the node shows the volume mounted or held. Of a node that is dead, "berth volume detach" takes your
word.`,
		Example: "  berth volume release -node 8f3a11c0 -reason \"looked at the host: the device is gone\" db-data",
		IDs:     "volumes",
	}
	cmd.Run = func(ctx context.Context, args []string) error {
		switch {
		case r.node == "":
			return kit.Usage("-node is missing")
		case strings.TrimSpace(r.reason) == "":
			return kit.Usage("-reason is missing")
		}
		return r.do(ctx, args[0])
	}
	cmd.Flags().StringVar(&r.node, "node", "", "the `node` on which nothing is left")
	cmd.Flags().StringVar(&r.reason, "reason", "", "why it is certain; kept")
	r.yes.AddTo(cmd)
	return cmd
}

func (r *release) do(ctx context.Context, volume string) error {
	ref, err := r.env.Volume(ctx, volume, kit.Change)
	if err != nil {
		return err
	}
	node, err := r.env.Node(ctx, r.node, kit.Change)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Is nothing left of volume %q on node %q for certain?", ref.ID, kit.ID(node.ID, false))
	if err := r.env.Confirm(r.yes, question, "give -yes"); err != nil {
		return err
	}
	if err := r.env.Client().Volumes().Release(ctx, ref.ID, node.ID, r.reason, ref.Write()); err != nil {
		return kit.Doing(err, "release", "volume", ref.ID)
	}
	r.env.Out.Printf("Volume %q is released on node %q\n", ref.ID, kit.ID(node.ID, false))
	return nil
}

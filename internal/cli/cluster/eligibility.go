package cluster

import (
	"context"

	"berth/internal/cli/kit"
)

func newEligibility(e *kit.Env) *kit.Command {
	var enable, disable, self bool
	cmd := &kit.Command{
		Use:     "eligibility -enable|-disable [flags] [node]",
		Short:   "Say whether a node takes new allocations",
		Long:    "Says whether a node takes new allocations. Those that run there stay.",
		Example: "  berth node eligibility -disable 8f3a11c0",
		IDs:     "nodes",
		Run: func(ctx context.Context, args []string) error {
			if enable == disable {
				return kit.Usage("give either -enable or -disable")
			}
			if self == (len(args) > 0) {
				return kit.Usage("give either a node or -self")
			}
			var ref kit.Ref
			var err error
			if self {
				ref.ID, err = selfNode(ctx, e)
			} else {
				ref, err = e.Node(ctx, args[0], kit.Change)
			}
			if err != nil {
				return err
			}
			if _, _, err := e.Client().Nodes().SetEligibility(ctx, ref.ID, enable, nil); err != nil {
				return kit.Doing(err, "change", "node", ref.ID)
			}
			word := "ineligible"
			if enable {
				word = "eligible"
			}
			e.Out.Printf("Node %q is %s for new allocations\n", ref.ID, word)
			return nil
		},
	}
	cmd.Flags().BoolVar(&enable, "enable", false, "it takes new allocations")
	cmd.Flags().BoolVar(&disable, "disable", false, "it takes none")
	cmd.Flags().BoolVar(&self, "self", false, "the node of the agent that is asked")
	return cmd
}

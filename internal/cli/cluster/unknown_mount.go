package cluster

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// unknownMounts tells what is mounted on the node and holds up releases because it has no name.
func (s *nodeStatus) unknownMounts(n *api.Node) {
	if len(n.UnknownMounts) == 0 {
		return
	}
	s.env.Out.Section("Unknown Mounts")
	s.env.Out.Notice("Nothing says which volumes these are; those of the same plugin are not released on this node " +
		`before they are gone (unmount them, or see "berth node unknown-mount forget -help")`)
	kit.List(s.env.Out, n.UnknownMounts, "unknown mounts", []string{"Path", "Device", "Type"},
		func(m *api.NodeUnknownMount) []string { return []string{m.Path, m.Device, m.FSType} })
}

func newUnknownMount(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "unknown-mount",
		Short: "Say what nodes cannot find out about something that is mounted",
		Long: `An unknown mount is one in the directories where a node's storage plugins mount of which neither a record
nor a file says whose it is: the node's data directory was rolled back, or damaged. It may be a volume that is in use,
so no volume of the same plugin is released on the node while it is there. "berth node status" shows it with its path.`,
	}
	return cmd.Add(newForgetMount(e))
}

// forgetMount is "node unknown-mount forget".
type forgetMount struct {
	env    *kit.Env
	reason string
	yes    kit.Agreement
}

func newForgetMount(e *kit.Env) *kit.Command {
	f := &forgetMount{env: e}
	cmd := &kit.Command{
		Use:   "forget [flags] <node> <path>",
		Short: "Say that an unknown mount is none of a volume",
		Long: `Lets volumes be released although something is mounted on the node that nothing names, on your word that
it is none of them. The mount stays as it is. The reason is kept. If the word is wrong, a volume is given to another
node while it is written to on this one.`,
		Example: "  berth node unknown-mount forget -reason \"a test of mine\" 8f3a11c0 " +
			"/var/lib/berth/csi/4f02aa10/p/0a/m",
		IDs: "nodes",
	}
	cmd.Run = func(ctx context.Context, args []string) error {
		if strings.TrimSpace(f.reason) == "" {
			return kit.Usage("-reason is missing")
		}
		return f.do(ctx, args[0], args[1])
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", "why it is certain that no volume is mounted there; kept")
	f.yes.AddTo(cmd)
	return cmd
}

func (f *forgetMount) do(ctx context.Context, node, path string) error {
	ref, err := f.env.Node(ctx, node, kit.Change)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Is what is mounted at %s on node %q certain to be no volume?", path, kit.ID(ref.ID, false))
	if err := f.env.Confirm(f.yes, question, "give -yes"); err != nil {
		return err
	}
	req := &api.NodeForgetMountRequest{Path: path, Reason: f.reason}
	if err := f.env.Client().Nodes().ForgetMount(ctx, ref.ID, req, ref.Write()); err != nil {
		return kit.Doing(err, "forget", "unknown mount", path)
	}
	f.env.Out.Printf("What is mounted at %s on node %q holds up no volume any more\n", path, kit.ID(ref.ID, false))
	return nil
}

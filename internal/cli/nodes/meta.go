package nodes

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// which names the node of a command, by a flag; without it the agent's own is meant.
type which struct {
	env *kit.Env
	id  string
}

func (w *which) addTo(cmd *kit.Command) {
	cmd.Flags().StringVar(&w.id, "node-id", "", "the `node`; left out: that of the agent that is asked")
}

func (w *which) resolve(ctx context.Context, access kit.Access) (string, error) {
	if w.id == "" {
		return "", nil
	}
	ref, err := w.env.Node(ctx, w.id, access)
	return ref.ID, err
}

func newMetaRead(e *kit.Env) *kit.Command {
	of := &which{env: e}
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "read [flags]",
		Short: "Show the metadata of a node",
		Long: `Shows the metadata as the node has it, and where it is from: what was said at run time, and what its
configuration says.`,
		Example: "  berth node meta read -node-id 8f3a11c0",
		Run: func(ctx context.Context, _ []string) error {
			id, err := of.resolve(ctx, kit.Read)
			if err != nil {
				return err
			}
			out, err := e.Client().Nodes().Meta(ctx, id, nil)
			return formats.Show(e.Out, out, kit.Doing(err, "read", "the metadata of node", id), func() { show(e, out) })
		},
	}
	of.addTo(cmd)
	return formats.AddTo(cmd)
}

// show shows metadata, and of each part where it is from.
func show(e *kit.Env, m *api.NodeMetaResponse) {
	said := map[string]string{}
	for k, v := range m.Dynamic {
		if said[k] = "<unset>"; v != nil {
			said[k] = *v
		}
	}
	for _, part := range []struct {
		title string
		words map[string]string
	}{{"All Meta", m.Meta}, {"Dynamic Meta", said}, {"Static Meta", m.Static}} {
		e.Out.Section(part.title)
		if len(part.words) == 0 {
			e.Out.Printf("<none>\n")
		}
		for _, k := range slices.Sorted(maps.Keys(part.words)) {
			e.Out.Printf("%s\n", strings.TrimRight(kit.Clean(k)+" = "+kit.Clean(part.words[k]), " "))
		}
	}
}

func newMetaApply(e *kit.Env) *kit.Command {
	of := &which{env: e}
	var unset string
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "apply [flags] [key=value...]",
		Short: "Change the metadata of a node at run time",
		Long: `Sets keys, and takes keys away with -unset. What is not named stays. A key that is taken away is none of
the node's even if its configuration names it, until it is set again.

Keys have up to 128 letters, digits and _ - . /; values up to 4096 bytes. A node has at most 256 keys.`,
		Example: "  berth node meta apply -node-id 8f3a11c0 rack=r7 -unset old",
		Run: func(ctx context.Context, args []string) error {
			values, err := changes(args, unset)
			if err != nil {
				return err
			}
			id, err := of.resolve(ctx, kit.Change)
			if err != nil {
				return err
			}
			out, err := e.Client().Nodes().ApplyMeta(ctx, &api.NodeMetaApplyRequest{NodeID: id, Meta: values}, nil)
			err = kit.Doing(err, "change", "the metadata of node", id)
			return formats.Show(e.Out, out, err, func() { show(e, out) })
		},
	}
	of.addTo(cmd)
	cmd.Flags().StringVar(&unset, "unset", "", "`keys` to take away, with commas between")
	return formats.AddTo(cmd)
}

// changes reads what is to be set and to be taken away.
func changes(args []string, unset string) (map[string]*string, error) {
	out := map[string]*string{}
	put := func(key string, value *string) error {
		if _, twice := out[key]; twice {
			return kit.Usage("the key %s is named twice", kit.Clean(key))
		}
		out[key] = value
		return nil
	}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, kit.Usage("write key=value, not %s", kit.Clean(arg))
		}
		if err := put(key, &value); err != nil {
			return nil, err
		}
	}
	for key := range strings.SplitSeq(unset, ",") {
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		if err := put(key, nil); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, kit.Usage("give key=value, or keys to take away: -unset KEYS")
	}
	return out, nil
}

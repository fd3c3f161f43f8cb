package volumes

import (
	"context"
	"fmt"

	"berth/api"
	"berth/internal/cli/kit"
)

// pluginRebind is "plugin rebind".
type pluginRebind struct {
	env      *kit.Env
	provider string
	from     string
	yes      kit.Agreement
	formats  kit.Formats
}

func newPluginRebind(e *kit.Env) *kit.Command {
	r := &pluginRebind{env: e}
	cmd := &kit.Command{
		Use:   "rebind [flags] <plugin>",
		Short: "Hand a plugin's volumes over to the provider that serves it now",
		Long: `A volume belongs to the provider that made it. When the same plugin id is served by another one, nothing
is done with the volume until the first one serves the plugin again, or until it is handed over here: do that only when
the new provider has the same data under the same ids, as after a driver was renamed. What it does not know it calls
deleted.

-provider is refused unless every healthy instance of the plugin names it.`,
		Example: "  berth plugin rebind -provider new.csi.example.com disks",
		IDs:     "plugins",
		Run:     func(ctx context.Context, args []string) error { return r.do(ctx, args[0]) },
	}
	cmd.Flags().StringVar(&r.provider, "provider", "", "the `name` of the provider that is to have the volumes")
	cmd.Flags().StringVar(&r.from, "from", "", "the `name` of the one that has them, if there are several")
	r.yes.AddTo(cmd)
	return r.formats.AddTo(cmd)
}

func (r *pluginRebind) do(ctx context.Context, arg string) error {
	if r.provider == "" {
		return kit.Usage("-provider is missing")
	}
	ref, err := r.env.Plugin(ctx, arg)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Hand all volumes of plugin %q over to provider %q?", ref.ID, r.provider)
	if err := r.env.Confirm(r.yes, question, "give -yes"); err != nil {
		return err
	}
	out, _, err := r.env.Client().Plugins().Rebind(ctx, ref.ID,
		&api.CSIPluginRebindRequest{Provider: r.provider, From: r.from}, ref.Write())
	return r.formats.Show(r.env.Out, out, kit.Doing(err, "rebind", "plugin", ref.ID), func() {
		r.env.Out.Printf("Plugin %q: %d volumes and snapshots handed over from provider %q to %q\n", ref.ID, out.Count,
			out.From, r.provider)
	})
}

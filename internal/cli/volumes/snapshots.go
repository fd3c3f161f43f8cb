package volumes

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/cli/kit"
)

func newSnapshotCreate(e *kit.Env) *kit.Command {
	var secrets secretsFlag
	var parameters []string
	var verbose bool
	var formats kit.Formats
	p := patience{env: e}
	cmd := &kit.Command{
		Use:   "create [flags] <volume> [name]",
		Short: "Make a snapshot of a volume",
		Long: `Makes a snapshot of a volume. A name names one snapshot of the volume: the same command again shows that
one, and makes no other. Without a name each command makes another snapshot.`,
		Example: "  berth volume snapshot create db-data before-upgrade",
		IDs:     "volumes",
		Run: func(ctx context.Context, args []string) error {
			ref, err := e.Volume(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			snap := &api.CSISnapshot{SourceVolumeID: ref.ID}
			if len(args) > 1 {
				snap.Name = args[1]
			}
			if snap.Secrets, err = secrets.secrets(); err != nil {
				return err
			}
			if snap.Parameters, err = keyValues("-parameter", parameters); err != nil {
				return err
			}
			if snap.Name == "" { // so that the request can be repeated
				snap.Name = ref.ID + "-" + ids.New()[:8]
			}
			out, err := p.snapshot(ctx, ref, snap)
			if err != nil || out == nil {
				return err
			}
			e.Err.Warn(out.Warnings)
			return formats.Show(e.Out, out.Snapshots, nil, func() { snapshotTable(e, out.Snapshots) })
		},
	}
	p.addTo(cmd)
	secrets.addTo(cmd)
	cmd.Flags().Var((*kit.Strings)(&parameters), "parameter", "`key=value` for the provider; may come again")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "accepted; ids are always whole")
	return formats.AddTo(cmd)
}

// snapshotTable never cuts ids: they are what people copy.
func snapshotTable(e *kit.Env, list []*api.CSISnapshot) {
	header := []string{"Snapshot ID", "Name", "Volume ID", "Size", "Create Time", "Ready?"}
	kit.List(e.Out, list, "snapshots", header, func(s *api.CSISnapshot) []string {
		volume := s.SourceVolumeID
		if volume == "" {
			volume = s.ExternalSourceVolumeID
		}
		return []string{s.ID, s.Name, volume, kit.Size(s.SizeBytes), kit.At(time.Unix(s.CreateTime, 0)),
			kit.Yes(s.IsReady)}
	})
}

// snapshotList is "volume snapshot list".
type snapshotList struct {
	env     *kit.Env
	plugin  string
	verbose bool
	secrets secretsFlag
	page    kit.Page
	formats kit.Formats
}

func newSnapshotList(e *kit.Env) *kit.Command {
	l := &snapshotList{env: e}
	cmd := &kit.Command{
		Use:     "list [flags]",
		Short:   "List the snapshots that providers have",
		Example: "  berth volume snapshot list -plugin local-csi",
		Run:     func(ctx context.Context, _ []string) error { return l.do(ctx) },
	}
	cmd.Flags().StringVar(&l.plugin, "plugin", "", "only those of this `plugin`")
	cmd.Flags().BoolVar(&l.verbose, "verbose", false, "accepted; ids are always whole")
	l.secrets.addTo(cmd)
	l.page.AddTo(cmd)
	return l.formats.AddTo(cmd)
}

func (l *snapshotList) do(ctx context.Context) error {
	secrets, err := l.secrets.secrets()
	if err != nil {
		return err
	}
	c := l.env.Client()
	plugins, err := l.plugins(ctx, c)
	if err != nil {
		return err
	}
	list := []*api.CSISnapshot{}
	failed := 0
	for _, p := range plugins {
		some, err := l.of(ctx, c, p, secrets)
		if err != nil && len(plugins) == 1 {
			return kit.Doing(err, "list the snapshots of", "plugin", p)
		}
		if err != nil {
			failed++
			l.env.Err.Notice("Plugin \"" + p + "\" does not list its snapshots: " + kit.OneSentence(err.Error()))
		}
		list = append(list, some...)
	}
	switch {
	case l.formats.Wanted():
		return l.formats.Print(l.env.Out, list)
	case len(list) == 0 && failed == len(plugins) && failed > 0:
		return &kit.Exit{Code: kit.ExitError}
	}
	snapshotTable(l.env, list)
	return nil
}

func (l *snapshotList) plugins(ctx context.Context, c *api.Client) ([]string, error) {
	if l.plugin != "" {
		ref, err := l.env.Plugin(ctx, l.plugin)
		return []string{ref.ID}, err
	}
	list, _, err := c.Plugins().List(ctx, nil)
	if err != nil {
		return nil, kit.Doing(err, "list", "plugins", "")
	}
	var out []string
	for _, p := range list {
		if p.ControllersHealthy > 0 {
			out = append(out, p.ID)
		}
	}
	return out, nil
}

// of reads all pages of a plugin, or the one that was asked for.
func (l *snapshotList) of(
	ctx context.Context, c *api.Client, plugin string, secrets api.Secrets,
) ([]*api.CSISnapshot, error) {
	o := l.page.Query()
	one := o.PerPage > 0
	if !one {
		o.PerPage = 100
	}
	var list []*api.CSISnapshot
	for {
		out, meta, err := c.Volumes().ListSnapshots(ctx, plugin, secrets, o)
		if err != nil {
			return list, err
		}
		list = append(list, out.Snapshots...)
		sayIncomplete(l.env, plugin, out.Incomplete)
		if one {
			l.page.More(l.env, meta)
		}
		if one || meta.NextToken == "" || meta.NextToken == o.NextToken {
			return list, nil
		}
		o.NextToken = meta.NextToken
	}
}

func newSnapshotDelete(e *kit.Env) *kit.Command {
	var secrets secretsFlag
	cmd := &kit.Command{
		Use:     "delete [flags] <plugin> <snapshot>",
		Short:   "Delete a snapshot",
		Long:    "Deletes a snapshot by the id that \"volume snapshot list\" shows.",
		Example: "  berth volume snapshot delete local-csi 3f0c…",
		Run: func(ctx context.Context, args []string) error {
			values, err := secrets.secrets()
			if err != nil {
				return err
			}
			err = e.Client().Volumes().DeleteSnapshot(ctx, args[0], args[1], values, nil)
			if err != nil {
				return kit.Doing(err, "delete", "snapshot", args[1])
			}
			e.Out.Printf("Snapshot %q deleted\n", args[1])
			return nil
		},
	}
	secrets.addTo(cmd)
	return cmd
}

package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// status is "volume status".
type status struct {
	env            *kit.Env
	kind           kindFlag
	short, verbose bool
	plugin, node   string
	job, state     string
	page           kit.Page
	formats        kit.Formats
}

func newStatus(e *kit.Env) *kit.Command {
	s := &status{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] [volume]",
		Short: "List volumes, or show one",
		Long: `Without an argument, lists the volumes. With one, shows who has it and since when, what it waits for,
where it is staged and mounted, how full it is there, and in which condition its plugin says that it is.`,
		Example: `  berth volume status
  berth volume status -plugin local-csi -state in-use
  berth volume status db-data`,
		IDs: "volumes",
		Run: func(ctx context.Context, args []string) error {
			if err := s.kind.check(); err != nil {
				return err
			}
			if len(args) == 0 {
				return s.list(ctx)
			}
			return s.show(ctx, args[0])
		},
	}
	fs := cmd.Flags()
	s.kind.addTo(cmd)
	fs.BoolVar(&s.short, "short", false, "only the head")
	fs.BoolVar(&s.verbose, "verbose", false,
		"whole ids, absolute times, claims ended by proof, and what the providers themselves list")
	fs.StringVar(&s.plugin, "plugin", "", "only those of this `plugin`")
	fs.StringVar(&s.plugin, "plugin-id", "", "the same as -plugin")
	fs.StringVar(&s.node, "node", "", "only those on this `node`")
	fs.StringVar(&s.job, "job", "", "only those that allocations of this `job` have")
	fs.StringVar(&s.state, "state", "", "only those in this `state`: in-use, free, schedulable, unschedulable")
	s.page.AddTo(cmd)
	return s.formats.AddTo(cmd)
}

// Show shows one volume.
func Show(ctx context.Context, e *kit.Env, id string) error { return (&status{env: e}).show(ctx, id) }

func (s *status) list(ctx context.Context) error {
	c := s.env.Client()
	o := s.page.Query()
	o.Params = map[string]string{"plugin_id": s.plugin}
	if s.node != "" {
		ref, err := s.env.Node(ctx, s.node, kit.Read)
		if err != nil {
			return err
		}
		o.Params["node_id"] = ref.ID
	}
	list, meta, err := c.Volumes().List(ctx, o)
	if err != nil {
		return s.page.Doing(err, "volumes")
	}
	if list, err = s.filter(ctx, c, list); err != nil {
		return err
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, list)
	}
	s.table(list)
	s.page.More(s.env, meta)
	if s.verbose {
		return s.externals(ctx, c)
	}
	return nil
}

func (s *status) table(list []*api.CSIVolumeListStub) {
	header := []string{"ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode", "In Use By"}
	kit.List(s.env.Out, list, "CSI volumes", header, func(v *api.CSIVolumeListStub) []string {
		return []string{v.ID, v.Name, v.Namespace, v.PluginID, strconv.FormatBool(v.Schedulable), v.AccessMode,
			users(v)}
	})
}

func users(v *api.CSIVolumeListStub) string {
	var parts []string
	if v.CurrentWriters > 0 {
		parts = append(parts, kit.Count(v.CurrentWriters, "writer", "writers"))
	}
	if v.CurrentReaders > 0 {
		parts = append(parts, kit.Count(v.CurrentReaders, "reader", "readers"))
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, ", ")
}

// filter applies what the agent does not filter by.
func (s *status) filter(
	ctx context.Context, c *api.Client, list []*api.CSIVolumeListStub,
) ([]*api.CSIVolumeListStub, error) {
	states := map[string]func(v *api.CSIVolumeListStub) bool{
		"":              func(*api.CSIVolumeListStub) bool { return true },
		"in-use":        func(v *api.CSIVolumeListStub) bool { return v.CurrentReaders+v.CurrentWriters > 0 },
		"free":          func(v *api.CSIVolumeListStub) bool { return v.CurrentReaders+v.CurrentWriters == 0 },
		"schedulable":   func(v *api.CSIVolumeListStub) bool { return v.Schedulable },
		"unschedulable": func(v *api.CSIVolumeListStub) bool { return !v.Schedulable },
	}
	fits := states[s.state]
	if fits == nil {
		return nil, kit.Fail(fault.Invalid, "",
			"the state %q is not known; there are in-use, free, schedulable and unschedulable", s.state)
	}
	out := []*api.CSIVolumeListStub{}
	for _, v := range list {
		if !fits(v) {
			continue
		}
		if s.job != "" {
			full, _, err := c.Volumes().Get(ctx, v.ID, &api.QueryOptions{Namespace: v.Namespace})
			if api.IsNotFound(err) {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, kit.Doing(err, "read", "volume", v.ID)
			}
			if !slices.ContainsFunc(full.Allocations, func(a *api.AllocationListStub) bool {
				return a.JobID == s.job
			}) {
				continue
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// externals lists what the providers themselves have, and which volume each of it is.
func (s *status) externals(ctx context.Context, c *api.Client) error {
	plugins, _, err := c.Plugins().List(ctx, nil)
	if err != nil {
		return kit.Doing(err, "list", "plugins", "")
	}
	for _, p := range plugins {
		if s.plugin != "" && p.ID != s.plugin || p.ControllersHealthy == 0 {
			continue
		}
		s.env.Out.Section(fmt.Sprintf("Volumes of the provider of plugin %q", p.ID))
		if err := s.providers(ctx, c, p.ID); err != nil {
			s.env.Err.Notice("It does not list them: " + kit.OneSentence(err.Error()))
		}
	}
	return nil
}

func (s *status) providers(ctx context.Context, c *api.Client, plugin string) error {
	known, err := registered(ctx, c, plugin)
	if err != nil {
		return err
	}
	var rows [][]string
	for o := (&api.QueryOptions{PerPage: 100}); ; {
		out, meta, err := c.Volumes().ListExternal(ctx, plugin, o)
		if err != nil {
			return err
		}
		sayIncomplete(s.env, plugin, out.Incomplete)
		for _, v := range out.Volumes {
			condition := "OK"
			if v.IsAbnormal {
				condition = v.Status
			}
			size := "unknown"
			if v.CapacityBytes > 0 {
				size = kit.Size(v.CapacityBytes)
			}
			rows = append(rows,
				[]string{v.ExternalID, cmp.Or(known[v.ExternalID], "(not registered)"), size, condition,
					strings.Join(v.PublishedExternalNodeIDs, ",")})
		}
		if meta.NextToken == "" || meta.NextToken == o.NextToken {
			break
		}
		o.NextToken = meta.NextToken
	}
	header := []string{"External ID", "Volume", "Capacity", "Condition", "Nodes"}
	kit.List(s.env.Out, rows, "volumes", header, func(row []string) []string { return row })
	return nil
}

// registered maps what a plugin's provider has to the volume that it is, in whichever namespace.
func registered(ctx context.Context, c *api.Client, plugin string) (map[string]string, error) {
	list, _, err := c.Volumes().List(ctx, &api.QueryOptions{
		Namespace: "*",
		Params:    map[string]string{"plugin_id": plugin},
	})
	if err != nil {
		return nil, kit.Doing(err, "list", "volumes", "")
	}
	known := map[string]string{}
	for _, v := range list {
		known[v.ExternalID] = v.Namespace + "/" + v.ID
	}
	return known, nil
}

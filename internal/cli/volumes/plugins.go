package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"berth/api"
	"berth/internal/cli/kit"
)

// pluginStatus is "plugin status".
type pluginStatus struct {
	env            *kit.Env
	kind           kindFlag
	short, verbose bool
	formats        kit.Formats
}

func newPluginStatus(e *kit.Env) *kit.Command {
	s := &pluginStatus{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] [plugin]",
		Short: "List storage plugins, or show one",
		Example: `  berth plugin status
  berth plugin status -verbose local-csi`,
		IDs: "plugins",
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
	s.kind.addTo(cmd)
	cmd.Flags().BoolVar(&s.short, "short", false, "only the head")
	cmd.Flags().BoolVar(&s.verbose, "verbose", false, "whole ids, and what the plugin can do")
	return s.formats.AddTo(cmd)
}

// ShowPlugin shows one plugin.
func ShowPlugin(ctx context.Context, e *kit.Env, id string) error {
	return (&pluginStatus{env: e}).show(ctx, id)
}

func (s *pluginStatus) list(ctx context.Context) error {
	list, _, err := s.env.Client().Plugins().List(ctx, nil)
	if err == nil && !s.formats.Wanted() {
		for _, text := range s.bundledBlocked(ctx) {
			s.env.Err.Notice(text)
		}
	}
	return s.formats.Show(s.env.Out, list, kit.Doing(err, "list", "plugins", ""), func() {
		header := []string{"ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"}
		kit.List(s.env.Out, list, "CSI plugins", header, func(p *api.CSIPluginListStub) []string {
			return []string{p.ID, p.Provider, fmt.Sprintf("%d/%d", p.ControllersHealthy, p.ControllersExpected),
				fmt.Sprintf("%d/%d", p.NodesHealthy, p.NodesExpected)}
		})
	})
}

func (s *pluginStatus) show(ctx context.Context, arg string) error {
	ref, err := s.env.Plugin(ctx, arg)
	if err != nil {
		return err
	}
	p, _, err := s.env.Client().Plugins().Get(ctx, ref.ID, nil)
	if err != nil {
		return kit.Doing(err, "read", "plugin", ref.ID)
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, p)
	}
	out := s.env.Out
	var l kit.Pairs
	l.Add("ID", p.ID)
	l.Add("Provider", p.Provider)
	l.Add("Version", p.Version)
	l.Add("Controllers Healthy", strconv.Itoa(p.ControllersHealthy))
	l.Add("Controllers Expected", strconv.Itoa(p.ControllersExpected))
	l.Add("Nodes Healthy", strconv.Itoa(p.NodesHealthy))
	l.Add("Nodes Expected", strconv.Itoa(p.NodesExpected))
	out.Pairs(l)
	if s.short {
		return nil
	}
	if p.ID == kit.BundledPlugin {
		for _, text := range s.bundledBlocked(ctx) {
			s.env.Err.Notice(text)
		}
	}
	for _, text := range p.Orphans {
		out.Notice(text)
	}
	s.instances("Controller", p.Controllers)
	s.instances("Node", p.Nodes)
	if s.verbose {
		s.capabilities(p)
	}
	out.Section("Allocations")
	kit.List(out, p.Allocations, "allocations",
		[]string{"ID", "Node ID", "Job ID", "Task Group", "Desired", "Status", "Created"},
		func(a *api.AllocationListStub) []string {
			return []string{kit.ID(a.ID, s.verbose), kit.ID(a.NodeID, s.verbose), a.JobID, a.TaskGroup, a.DesiredStatus,
				a.Phase(), kit.When(a.CreateTime, s.verbose)}
		})
	return nil
}

// bundledBlocked says where the bundled plugin cannot run although it is to. What cannot be read is not said: that is
// not what the command is about.
func (s *pluginStatus) bundledBlocked(ctx context.Context) (out []string) {
	list, _, err := s.env.Client().Nodes().List(ctx, &api.QueryOptions{
		Filter: `Attributes["` + api.NodeAttributeLocalCSI + `"] == "true"`,
		Params: map[string]string{"os": "true"},
	})
	if err != nil {
		return nil
	}
	for _, n := range list {
		if why := kit.BundledBlocked(n.Attributes, n.Drivers); why != "" {
			out = append(out, fmt.Sprintf("Node %s: %s", kit.ID(n.ID, s.verbose), why))
		}
	}
	return out
}

// instances lists where the plugin runs in one role, and what is wrong there.
func (s *pluginStatus) instances(role string, by map[string]*api.CSIInfo) {
	header := []string{"Node ID", "Alloc ID", "Healthy", "Description"}
	if role == "Node" {
		header = append(header, "Storage Node ID", "Max Volumes", "Topology")
	}
	kit.Part(s.env.Out, role+" Instances", slices.Sorted(maps.Keys(by)), header, func(node string) []string {
		i := by[node]
		if i == nil {
			return nil
		}
		row := []string{kit.ID(node, s.verbose), kit.ID(i.AllocID, s.verbose), kit.Yes(i.Healthy), i.HealthDescription}
		if role == "Node" {
			row = append(row, nodeSide(i.NodeInfo)...)
		}
		return row
	})
}

func nodeSide(n *api.CSINodeInfo) []string {
	if n == nil {
		return []string{"", "", ""}
	}
	most := "no limit"
	if n.MaxVolumes > 0 && n.MaxVolumes < 1<<62 {
		most = strconv.FormatInt(n.MaxVolumes, 10)
	}
	topology := ""
	if n.AccessibleTopology != nil {
		topology = pairsOf(n.AccessibleTopology.Segments)
	}
	return []string{n.ID, most, topology}
}

// ability is one thing that a plugin may offer, by the name that its protocol gives it.
type ability struct {
	offered bool
	name    string
}

// capabilities shows what the plugin has, and nothing else.
func (s *pluginStatus) capabilities(p *api.CSIPlugin) {
	for _, node := range slices.Sorted(maps.Keys(p.Controllers)) {
		if i := p.Controllers[node]; i != nil && i.ControllerInfo != nil {
			c := i.ControllerInfo
			s.abilities("Controller Capabilities", []ability{
				{c.SupportsCreateDelete, "CREATE_DELETE_VOLUME"},
				{c.SupportsAttachDetach, "CONTROLLER_ATTACH_DETACH"},
				{c.SupportsListVolumes, "LIST_VOLUMES"},
				{c.SupportsGetCapacity, "GET_CAPACITY"},
				{c.SupportsCreateDeleteSnapshot, "CREATE_DELETE_SNAPSHOT"},
				{c.SupportsListSnapshots, "LIST_SNAPSHOTS"},
				{c.SupportsClone, "CLONE_VOLUME"},
				{c.SupportsReadOnlyAttach, "ATTACH_READONLY"},
				{c.SupportsExpand, "EXPAND_VOLUME"},
				{c.SupportsListVolumesAttachedNodes, "LIST_VOLUMES_PUBLISHED_NODES"},
				{c.SupportsCondition, "VOLUME_CONDITION"},
				{c.SupportsGet, "GET_VOLUME"},
			})
			break
		}
	}
	for _, node := range slices.Sorted(maps.Keys(p.Nodes)) {
		if i := p.Nodes[node]; i != nil && i.NodeInfo != nil {
			n := i.NodeInfo
			s.abilities("Node Capabilities", []ability{
				{n.RequiresNodeStageVolume, "STAGE_UNSTAGE_VOLUME"},
				{n.SupportsStats, "GET_VOLUME_STATS"},
				{n.SupportsExpand, "EXPAND_VOLUME"},
				{n.SupportsCondition, "VOLUME_CONDITION"},
			})
			break
		}
	}
}

func (s *pluginStatus) abilities(title string, list []ability) {
	s.env.Out.Section(title)
	none := true
	for _, a := range list {
		if a.offered {
			none = false
			s.env.Out.Printf("  %s\n", a.name)
		}
	}
	if none {
		s.env.Out.Printf("  %s\n", kit.None)
	}
}

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/devices"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// nodeStatus is "node status".
type nodeStatus struct {
	env                        *kit.Env
	self, short, verbose       bool
	stats, allocs, os, idsOnly bool
	page                       kit.Page
	formats                    kit.Formats
}

func newNodeStatus(e *kit.Env) *kit.Command {
	s := &nodeStatus{env: e}
	cmd := &kit.Command{
		Use:   "status [flags] [node]",
		Short: "List nodes, or show one",
		Long: "Without an argument, lists the nodes. With one, a part of an id or a name, shows its drivers, " +
			"plugins, load and allocations.",
		Example: `  berth node status
  berth node status -self
  berth node status -verbose 8f3a11c0`,
		IDs: "nodes",
		Run: func(ctx context.Context, args []string) error {
			switch {
			case s.self:
				id, err := selfNode(ctx, e)
				if err != nil {
					return err
				}
				return s.show(ctx, kit.Ref{ID: id})
			case len(args) == 0:
				return s.list(ctx)
			}
			ref, err := e.Node(ctx, args[0], kit.Read)
			if err != nil {
				return err
			}
			return s.show(ctx, ref)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&s.self, "self", false, "show the node of the agent that is asked")
	fs.BoolVar(&s.short, "short", false, "only the head")
	fs.BoolVar(&s.verbose, "verbose", false, "whole ids, absolute times, attributes")
	fs.BoolVar(&s.stats, "stats", false, "the load in detail")
	fs.BoolVar(&s.allocs, "allocs", false, "in lists: how many allocations run")
	fs.BoolVar(&s.os, "os", false, "in lists: the operating system")
	fs.BoolVar(&s.idsOnly, "quiet", false, "in lists: only the ids")
	s.page.AddTo(cmd)
	return s.formats.AddTo(cmd)
}

// ShowNode shows one node.
func ShowNode(ctx context.Context, e *kit.Env, id string) error {
	ref, err := e.Node(ctx, id, kit.Read)
	if err != nil {
		return err
	}
	return (&nodeStatus{env: e}).show(ctx, ref)
}

// selfNode is the id of the node in the agent that is asked.
func selfNode(ctx context.Context, e *kit.Env) (string, error) {
	self, err := e.Client().Cluster().Self(ctx)
	if err != nil {
		return "", kit.Doing(err, "ask", "the agent", "")
	}
	if id := self.Stats["client"]["node_id"]; id != "" {
		return id, nil
	}
	return "", kit.Fail(fault.NotFound, `"berth node status" lists the nodes`, "the agent that was asked runs no node")
}

func (s *nodeStatus) list(ctx context.Context) error {
	c := s.env.Client()
	o := s.page.Query()
	if s.os {
		o.Params = map[string]string{"os": "true"}
	}
	list, meta, err := c.Nodes().List(ctx, o)
	switch {
	case err != nil:
		return s.page.Doing(err, "nodes")
	case s.formats.Wanted():
		return s.formats.Print(s.env.Out, list)
	case len(list) == 0:
		s.env.Out.Printf("No nodes\n")
		return nil
	}
	if s.idsOnly {
		for _, n := range list {
			s.env.Out.Printf("%s\n", kit.ID(n.ID, s.verbose))
		}
		return nil
	}
	header, rows, err := s.rows(ctx, c, list)
	if err != nil {
		return err
	}
	s.env.Out.Table(header, rows)
	s.page.More(s.env, meta)
	for _, n := range list {
		if n.Orphans > 0 {
			s.env.Err.Notice(fmt.Sprintf("Node %s: %s", kit.ID(n.ID, s.verbose), keptHere(n.Orphans)))
		}
		if n.StatusDescription != "" {
			s.env.Err.Notice(fmt.Sprintf("Node %s: %s", kit.ID(n.ID, s.verbose), n.StatusDescription))
		}
	}
	return nil
}

func (s *nodeStatus) rows(
	ctx context.Context, c *api.Client, list []*api.NodeListStub,
) (header []string, rows [][]string, err error) {
	header = []string{"ID", "Node Pool", "DC", "Name", "Class"}
	if s.os {
		header = append(header, "OS")
	}
	if s.verbose {
		header = append(header, "Address", "Version")
	}
	header = append(header, "Drain", "Eligibility", "Status")
	if s.allocs {
		header = append(header, "Running Allocs")
	}
	for _, n := range list {
		row := []string{kit.ID(n.ID, s.verbose), n.NodePool, n.Datacenter, n.Name, n.NodeClass}
		if s.os {
			row = append(row, n.Attributes["os.name"])
		}
		if s.verbose {
			row = append(row, n.Address, n.Version)
		}
		row = append(row, strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status)
		if s.allocs {
			running, err := s.running(ctx, c, n.ID)
			if err != nil {
				return nil, nil, err
			}
			row = append(row, strconv.Itoa(running))
		}
		rows = append(rows, row)
	}
	return header, rows, nil
}

func (s *nodeStatus) running(ctx context.Context, c *api.Client, id string) (int, error) {
	list, _, err := c.Nodes().Allocations(ctx, id, nil)
	if err != nil {
		return 0, kit.Doing(err, "list the allocations of", "node", id)
	}
	n := 0
	for _, a := range list {
		if a.ClientStatus == api.AllocClientStatusRunning {
			n++
		}
	}
	return n, nil
}

func (s *nodeStatus) show(ctx context.Context, ref kit.Ref) error {
	c := s.env.Client()
	n, _, err := c.Nodes().Get(ctx, ref.ID, nil)
	if err != nil {
		return kit.Doing(err, "read", "node", ref.ID)
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, n)
	}
	var stats *api.HostStats
	if n.Status == api.NodeStatusReady && !s.short {
		if stats, err = c.Nodes().Stats(ctx, n.ID, nil); err != nil {
			s.env.Err.Notice("The node does not tell its load: " + kit.OneSentence(err.Error()))
			stats = nil
		}
	}
	s.head(n, stats)
	s.orphans(n)
	s.unknownMounts(n)
	s.unclaimed(n)
	s.refusedAgents(n)
	if s.short {
		return nil
	}
	s.plugins(n)
	s.events(n)
	allocs, _, err := c.Nodes().Allocations(ctx, n.ID, nil)
	if err != nil {
		return kit.Doing(err, "list the allocations of", "node", n.ID)
	}
	s.resources(n, allocs)
	s.load(n, stats)
	devices.Utilization(s.env.Out, stats)
	if s.stats {
		devices.Stats(s.env.Out, stats)
	}
	s.allocations(allocs)
	follow.Waits(s.env.Out, allocs, s.verbose)
	if s.verbose {
		devices.OfNode(s.env.Out, n)
		s.attributes(n)
	}
	return nil
}

func (s *nodeStatus) head(n *api.Node, stats *api.HostStats) {
	var l kit.Pairs
	l.Add("ID", n.ID)
	l.Add("Name", n.Name)
	l.Add("Node Pool", n.NodePool)
	l.Add("Class", n.NodeClass)
	l.Add("DC", n.Datacenter)
	l.Add("Drain", strconv.FormatBool(n.DrainStrategy != nil || n.Drain))
	l.Add("Eligibility", n.SchedulingEligibility)
	l.Add("Status", n.Status)
	l.AddIf("Status Description", n.StatusDescription)
	l.Add("CSI Controllers", strings.Join(slices.Sorted(maps.Keys(n.CSIControllerPlugins)), ","))
	l.Add("CSI Drivers", strings.Join(slices.Sorted(maps.Keys(n.CSINodePlugins)), ","))
	if stats != nil {
		l.Add("Uptime", kit.Span(time.Duration(stats.Uptime)*time.Second))
	}
	l.Add("Host Volumes", hostVolumes(n))
	l.Add("Driver Status", drivers(n))
	for _, text := range devices.Unhealthy(n) {
		l.Add("Unhealthy Device", text)
	}
	s.env.Out.Pairs(l)
	if !s.verbose {
		return
	}
	names := slices.Sorted(maps.Keys(n.Drivers))
	kit.Part(s.env.Out, "Drivers", names, []string{"Driver", "Detected", "Healthy", "Message", "Time"},
		func(name string) []string {
			d := n.Drivers[name]
			if d == nil {
				return nil
			}
			return []string{name, kit.Yes(d.Detected), kit.Yes(d.Healthy), d.HealthDescription, kit.At(d.UpdateTime)}
		})
}

func hostVolumes(n *api.Node) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		if v := n.HostVolumes[name]; v != nil && v.Unhealthy != "" {
			name += " (unhealthy: " + kit.Clean(v.Unhealthy) + ")"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ",")
}

func drivers(n *api.Node) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		switch d := n.Drivers[name]; {
		case d == nil || !d.Detected:
		case d.Healthy:
			parts = append(parts, name)
		default:
			parts = append(parts, name+" (unhealthy)")
		}
	}
	return strings.Join(parts, ",")
}

// plugins tells what is wrong with storage plugins on the node.
func (s *nodeStatus) plugins(n *api.Node) {
	var rows [][]string
	add := func(role string, by map[string]*api.CSIInfo) {
		for _, id := range slices.Sorted(maps.Keys(by)) {
			if i := by[id]; i != nil && (s.verbose || !i.Healthy) {
				rows = append(rows,
					[]string{id, role, kit.Yes(i.Healthy), i.HealthDescription, kit.ID(i.AllocID, s.verbose)})
			}
		}
	}
	add("controller", n.CSIControllerPlugins)
	add("node", n.CSINodePlugins)
	if why := kit.BundledBlocked(n.Attributes, n.Drivers); why != "" && n.CSINodePlugins[kit.BundledPlugin] == nil {
		rows = append(rows, []string{kit.BundledPlugin, "node", kit.Yes(false), why, ""})
	}
	if len(rows) > 0 {
		s.env.Out.Section("CSI Plugins")
		s.env.Out.Table([]string{"Plugin ID", "Role", "Healthy", "Description", "Alloc ID"}, rows)
	}
}

func (s *nodeStatus) events(n *api.Node) {
	latest := slices.Clone(n.Events)
	slices.Reverse(latest)
	kit.Part(s.env.Out, "Node Events", latest, []string{"Time", "Subsystem", "Message"},
		func(e *api.NodeEvent) []string {
			return []string{kit.At(e.Timestamp), e.Subsystem, e.Message}
		})
}

func (s *nodeStatus) attributes(n *api.Node) {
	for _, part := range []struct {
		title string
		of    map[string]string
	}{{"Attributes", n.Attributes}, {"Meta", n.Meta}} {
		s.env.Out.Section(part.title)
		if len(part.of) == 0 {
			s.env.Out.Printf("%s\n", kit.None)
			continue
		}
		var l kit.Pairs
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			l.Add(kit.Clean(name), part.of[name])
		}
		s.env.Out.Pairs(l)
	}
}

func mhz(used float64, total int64) string { return fmt.Sprintf("%.0f/%d MHz", used, total) }

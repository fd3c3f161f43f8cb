package volumes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

func (s *status) show(ctx context.Context, arg string) error {
	ref, err := s.env.Volume(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	v, _, err := s.env.Client().Volumes().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "read", "volume", ref.ID)
	}
	var use *api.CSIVolumeUsage
	if !s.short || s.formats.Wanted() {
		if use, _, err = s.env.Client().Volumes().Usage(ctx, ref.ID, ref.Query()); err != nil {
			s.env.Err.Notice("How full it is, is not known: " + kit.OneSentence(err.Error()))
			use = nil
		}
	}
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, measured{CSIVolume: v, Usage: use})
	}
	s.head(v)
	if s.short {
		return nil
	}
	s.sentences(v)
	s.places(v)
	s.usage(use)
	s.capabilities(v)
	s.topologies(v)
	s.allocations(v)
	if s.verbose {
		s.provenEnds(v)
	}
	return nil
}

func (s *status) head(v *api.CSIVolume) {
	var l kit.Pairs
	l.Add("ID", v.ID)
	l.Add("Name", v.Name)
	l.Add("Namespace", v.Namespace)
	l.Add("External ID", v.ExternalID)
	l.Add("Plugin ID", v.PluginID)
	l.Add("Provider", v.Provider)
	l.Add("Version", v.ProviderVersion)
	if v.Capacity > 0 {
		l.Add("Capacity", kit.Size(v.Capacity))
	} else {
		l.Add("Capacity", "unknown")
	}
	if v.RequestedCapacityMin > 0 || v.RequestedCapacityMax > 0 {
		l.Add("Capacity Asked", asked(v))
	}
	l.Add("Schedulable", strconv.FormatBool(v.Schedulable))
	l.Add("Controllers Healthy", strconv.Itoa(v.ControllersHealthy))
	l.Add("Controllers Expected", strconv.Itoa(v.ControllersExpected))
	l.Add("Nodes Healthy", strconv.Itoa(v.NodesHealthy))
	l.Add("Nodes Expected", strconv.Itoa(v.NodesExpected))
	l.Add("Access Mode", v.AccessMode)
	l.Add("Attachment Mode", v.AttachmentMode)
	l.Add("Mount Options", mountOptions(v.MountOptions))
	l.AddIf("Ownership", ownership(v.Ownership))
	l.AddIf("Snapshot ID", v.SnapshotID)
	l.AddIf("Clone ID", v.CloneID)
	if v.CreateTime > 0 {
		l.Add("Created", kit.When(v.CreateTime, s.verbose))
	}
	if s.verbose {
		l.Add("Parameters", pairsOf(v.Parameters))
		l.Add("Context", pairsOf(v.Context))
	}
	s.env.Out.Pairs(l)
}

func asked(v *api.CSIVolume) string {
	text := "at least " + kit.Size(v.RequestedCapacityMin)
	if v.RequestedCapacityMax > 0 {
		text += ", at most " + kit.Size(v.RequestedCapacityMax)
	}
	return text
}

// ownership says whom a volume is given to; what is left out is the first task's.
func ownership(o *api.CSIVolumeOwnership) string {
	if o == nil {
		return ""
	}
	parts := []string{o.Policy}
	for _, n := range []struct {
		name string
		id   *int
	}{{"uid", o.UID}, {"gid", o.GID}} {
		if n.id != nil {
			parts = append(parts, n.name+" "+strconv.Itoa(*n.id))
		}
	}
	if o.Mode != "" {
		parts = append(parts, "mode "+o.Mode)
	}
	return strings.Join(parts, ", ")
}

func mountOptions(o *api.CSIMountOptions) string {
	if o == nil {
		return ""
	}
	var parts []string
	if o.FSType != "" {
		parts = append(parts, "fs_type: "+o.FSType)
	}
	if len(o.MountFlags) > 0 {
		parts = append(parts, "flags: "+strings.Join(o.MountFlags, ", "))
	}
	return strings.Join(parts, " ")
}

func pairsOf(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ", ")
}

// sentences tells in sentences how the volume stands.
func (s *status) sentences(v *api.CSIVolume) {
	if len(v.State) == 0 {
		return
	}
	s.env.Out.Section("State")
	for _, text := range v.State {
		s.env.Out.Printf("* %s\n", kit.Clean(text))
	}
}

// places tells what nodes have of the volume, and what they do about it.
func (s *status) places(v *api.CSIVolume) {
	kit.Part(s.env.Out, "On Nodes", v.Places, []string{"Node ID", "Staged", "Mounted At", "Next Step"},
		func(p api.VolumePlace) []string {
			return []string{kit.ID(p.Node, s.verbose), p.Staged, strings.Join(p.Paths, ", "), p.Step}
		})
	for _, p := range v.Places {
		if p.LastError == "" {
			continue
		}
		text := fmt.Sprintf("Last error on node %s: %s", kit.ID(p.Node, s.verbose), kit.OneSentence(p.LastError))
		if !p.NextTry.IsZero() {
			text += "; next try at " + kit.At(p.NextTry)
		}
		s.env.Out.Printf("%s\n", s.env.Out.Red(text))
	}
	s.holders(v)
}

// holders tells who keeps what nodes cannot undo.
func (s *status) holders(v *api.CSIVolume) {
	var rows [][]string
	for _, p := range v.Places {
		for _, h := range p.Holders {
			pid := strconv.Itoa(h.PID)
			if h.PID == 0 {
				pid = "-"
			}
			rows = append(rows, []string{kit.ID(p.Node, s.verbose), pid, kit.Clean(h.Command), h.MountNamespace,
				kit.ID(h.Alloc, s.verbose), kit.Clean(h.How)})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.env.Out.Section("Held By")
	s.env.Out.Table([]string{"Node ID", "PID", "Command", "Mount Namespace", "Alloc ID", "How"}, rows)
}

// measured is a volume with what its nodes have measured of it; null: that is not known.
type measured struct {
	*api.CSIVolume
	Usage *api.CSIVolumeUsage
}

// usage tells how full the volume is in the eyes of each node that uses it, and in which condition.
func (s *status) usage(u *api.CSIVolumeUsage) {
	if u == nil {
		return
	}
	header := []string{"Node ID", "Alloc IDs", "Used", "Available", "Inodes Used", "Condition", "Measured"}
	kit.Part(s.env.Out, "Usage", u.Nodes, header, func(n api.CSIVolumeNodeUsage) []string {
		var users []string
		for _, id := range n.Allocations {
			users = append(users, kit.ID(id, s.verbose))
		}
		when := "never"
		if n.Measured != nil {
			when = kit.When(n.Measured.UnixNano(), s.verbose)
		}
		return []string{kit.ID(n.NodeID, s.verbose), strings.Join(users, ","), usedOf(n.Bytes, kit.Size),
			left(n.Bytes), usedOf(n.Inodes, number), condition(n.Condition), when}
	})
	for _, n := range u.Nodes {
		if c := n.Condition; c != nil && c.Abnormal {
			s.env.Out.Printf("%s\n", s.env.Out.Red(fmt.Sprintf("Abnormal on node %s: %s", kit.ID(n.NodeID, s.verbose),
				kit.OneSentence(cmp.Or(c.Message, "the plugin gives no reason")))))
		}
		if n.Error != "" {
			s.env.Out.Printf("Not measured on node %s: %s\n", kit.ID(n.NodeID, s.verbose), kit.OneSentence(n.Error))
		}
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// usedOf tells an amount; of raw blocks plugins tell the whole alone.
func usedOf(a *api.CSIVolumeAmount, form func(int64) string) string {
	switch {
	case a == nil:
		return "unknown"
	case a.Used == 0 && a.Available == 0:
		return "unknown of " + form(a.Total)
	case a.Total == 0:
		return form(a.Used)
	}
	return fmt.Sprintf("%s of %s (%d%%)", form(a.Used), form(a.Total), int64(100*float64(a.Used)/float64(a.Total)))
}

func left(a *api.CSIVolumeAmount) string {
	if a == nil || a.Used == 0 && a.Available == 0 {
		return "unknown"
	}
	return kit.Size(a.Available)
}

func condition(c *api.CSIVolumeCondition) string {
	switch {
	case c == nil:
		return "unknown"
	case c.Abnormal:
		return "abnormal"
	}
	return "normal"
}

// provenEnds tells which claims were ended without their nodes' word.
func (s *status) provenEnds(v *api.CSIVolume) {
	header := []string{"Time", "Alloc ID", "Node ID", "Proof", "By", "Reason"}
	kit.Part(s.env.Out, "Claims Ended by Proof", v.ProvenEnds, header, func(e api.VolumeProvenEnd) []string {
		return []string{kit.At(e.Time), kit.ID(e.Alloc, s.verbose), kit.ID(e.Node, s.verbose), e.Proof, kit.Clean(e.By),
			kit.OneSentence(e.Reason)}
	})
}

func (s *status) capabilities(v *api.CSIVolume) {
	header := []string{"Access Mode", "Attachment Mode"}
	kit.Part(s.env.Out, "Capabilities", v.RequestedCapabilities, header, func(c *api.CSIVolumeCapability) []string {
		return []string{c.AccessMode, c.AttachmentMode}
	})
}

func (s *status) topologies(v *api.CSIVolume) {
	var rows [][]string
	for i, t := range v.Topologies {
		if t != nil && len(t.Segments) > 0 {
			rows = append(rows, []string{fmt.Sprintf("%02d", i+1), pairsOf(t.Segments)})
		}
	}
	if len(rows) == 0 {
		return
	}
	s.env.Out.Section("Topologies")
	s.env.Out.Table([]string{"Topology", "Segments"}, rows)
}

func (s *status) allocations(v *api.CSIVolume) {
	s.env.Out.Section("Allocations")
	if len(v.Allocations) == 0 {
		s.env.Out.Printf("No allocations have it\n")
		return
	}
	list := slices.Clone(v.Allocations)
	slices.SortStableFunc(list, func(a, b *api.AllocationListStub) int {
		return cmp.Compare(b.CreateIndex, a.CreateIndex)
	})
	header := []string{"ID", "Node ID", "Job ID", "Task Group", "Access", "Desired", "Status", "Created"}
	kit.List(s.env.Out, list, "allocations", header, func(a *api.AllocationListStub) []string {
		access := "writes"
		if _, reads := v.ReadAllocs[a.ID]; reads {
			access = "reads"
		}
		return []string{kit.ID(a.ID, s.verbose), kit.ID(a.NodeID, s.verbose), a.JobID, a.TaskGroup, access,
			a.DesiredStatus, a.Phase(),
			kit.When(a.CreateTime, s.verbose)}
	})
}

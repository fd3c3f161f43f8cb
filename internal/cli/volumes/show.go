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
	if s.formats.Wanted() {
		return s.formats.Print(s.env.Out, v)
	}
	s.head(v)
	if s.short {
		return nil
	}
	s.sentences(v)
	s.places(v)
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

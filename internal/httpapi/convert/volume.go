package convert

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// ToVolumeWrite makes the internal request of a public volume.
func ToVolumeWrite(v *api.CSIVolume, ns ids.Namespace) *wire.VolumeWriteRequest {
	if v.Namespace != "" {
		ns = ids.Namespace(v.Namespace)
	}
	out := &wire.VolumeWriteRequest{
		Volume:     volume.ID{Namespace: ns, ID: ids.Volume(v.ID)},
		ExternalID: v.ExternalID,
		Context:    v.Context,
		Secrets:    wire.Secrets{Values: v.Secrets},
		Spec: volume.Spec{
			Name:        v.Name,
			Plugin:      ids.Plugin(v.PluginID),
			CapacityMin: v.RequestedCapacityMin,
			CapacityMax: v.RequestedCapacityMax,
			Parameters:  v.Parameters,
			SnapshotID:  v.SnapshotID,
			CloneID:     v.CloneID,
		},
	}
	for _, c := range v.RequestedCapabilities {
		if c != nil {
			out.Spec.Capabilities = append(out.Spec.Capabilities,
				volume.Capability{
					AccessMode:     volume.AccessMode(c.AccessMode),
					AttachmentMode: volume.AttachmentMode(c.AttachmentMode),
				})
		}
	}
	if o := v.MountOptions; o != nil && (o.FSType != "" || len(o.MountFlags) > 0) {
		out.Spec.MountOptions = &volume.MountOptions{FSType: o.FSType, MountFlags: o.MountFlags}
	}
	if o := v.Ownership; o != nil {
		out.Spec.Ownership = &volume.Ownership{
			UID:    o.UID,
			GID:    o.GID,
			Mode:   o.Mode,
			Policy: volume.OwnershipPolicy(cmp.Or(o.Policy, string(volume.OwnRoot))),
		}
	}
	if r := v.RequestedTopologies; r != nil {
		out.Spec.TopologyRequired, out.Spec.TopologyPreferred = toTopologies(r.Required), toTopologies(r.Preferred)
	}
	return out
}

func toTopologies(in []*api.CSITopology) []plugin.Topology {
	var out []plugin.Topology
	for _, t := range in {
		if t != nil {
			out = append(out, plugin.Topology{Segments: t.Segments})
		}
	}
	return out
}

func fromTopologies(in []plugin.Topology) []*api.CSITopology {
	var out []*api.CSITopology
	for _, t := range in {
		out = append(out, &api.CSITopology{Segments: t.Segments})
	}
	return out
}

// mountOptions shows that flags are there, not what they are: they may be sensitive.
func mountOptions(o *volume.MountOptions) *api.CSIMountOptions {
	if o == nil {
		return nil
	}
	out := &api.CSIMountOptions{FSType: o.FSType}
	if len(o.MountFlags) > 0 {
		out.MountFlags = []string{"[REDACTED]"}
	}
	return out
}

func fromOwnership(o *volume.Ownership) *api.CSIVolumeOwnership {
	if o == nil {
		return nil
	}
	return &api.CSIVolumeOwnership{UID: o.UID, GID: o.GID, Mode: o.Mode, Policy: string(o.Policy)}
}

// Volume makes the public form of a volume with all that refers to it.
func Volume(v *wire.VolumeView) *api.CSIVolume {
	if v == nil {
		return nil
	}
	m, st := v.Volume, v.Volume.Status
	out := &api.CSIVolume{
		ID:                   string(m.ID.ID),
		Name:                 m.Name(),
		ExternalID:           st.ExternalID,
		Namespace:            string(m.Namespace),
		Topologies:           fromTopologies(st.Topologies),
		AccessMode:           string(st.AccessMode),
		AttachmentMode:       string(st.AttachmentMode),
		MountOptions:         mountOptions(m.Spec.MountOptions),
		Ownership:            fromOwnership(m.Spec.Ownership),
		Parameters:           orEmpty(m.Spec.Parameters),
		Context:              orEmpty(st.Context),
		Capacity:             st.Capacity,
		RequestedCapacityMin: m.Spec.CapacityMin,
		RequestedCapacityMax: m.Spec.CapacityMax,
		CloneID:              m.Spec.CloneID,
		SnapshotID:           m.Spec.SnapshotID,
		ReadAllocs:           map[string]*api.Allocation{},
		WriteAllocs:          map[string]*api.Allocation{},
		Allocations:          []*api.AllocationListStub{},
		Schedulable:          v.Schedulable,
		PluginID:             string(m.Spec.Plugin),
		Provider:             st.Provider,
		ProviderVersion:      st.ProviderVersion,
		ResourceExhausted:    &time.Time{},
		State:                v.State,
		Phase:                string(st.Phase),
		LastError:            st.LastError,
		CreateIndex:          m.CreateIndex,
		ModifyIndex:          m.ModifyIndex,
		CreateTime:           m.CreateTime,
		ModifyTime:           m.ModifyTime,
	}
	if m.Spec.Secrets != "" {
		out.Secrets = api.Secrets{"secrets": "[REDACTED]"}
	}
	if len(m.Spec.TopologyRequired)+len(m.Spec.TopologyPreferred) > 0 {
		out.RequestedTopologies = &api.CSITopologyRequest{
			Required:  fromTopologies(m.Spec.TopologyRequired),
			Preferred: fromTopologies(m.Spec.TopologyPreferred),
		}
	}
	for _, c := range m.Spec.Capabilities {
		out.RequestedCapabilities = append(out.RequestedCapabilities,
			&api.CSIVolumeCapability{AccessMode: string(c.AccessMode), AttachmentMode: string(c.AttachmentMode)})
	}
	for _, c := range v.Claims {
		if c.Reads() {
			out.ReadAllocs[string(c.Alloc)] = nil
		} else {
			out.WriteAllocs[string(c.Alloc)] = nil
		}
	}
	for _, a := range v.Allocs {
		out.Allocations = append(out.Allocations, AllocStub(alloc.Bundle{Alloc: a}))
	}
	if p := v.Plugin; p != nil {
		out.ControllerRequired = p.ControllerRequired
		out.ControllersHealthy = p.ControllersHealthy
		out.ControllersExpected = p.ControllersExpected
		out.NodesHealthy, out.NodesExpected = p.NodesHealthy, p.NodesExpected
		if out.Provider == "" || out.Provider == p.Record.Provider {
			out.Provider, out.ProviderVersion = p.Record.Provider, p.Record.Version
		}
	}
	out.Places = places(v)
	for _, e := range v.Ended {
		out.ProvenEnds = append(out.ProvenEnds, api.VolumeProvenEnd{
			Node:   string(e.Node),
			Alloc:  string(e.Alloc),
			Proof:  string(e.Proof),
			Reason: e.Reason,
			By:     e.By,
			Time:   e.Time,
			Index:  e.Index,
		})
	}
	return out
}

func places(v *wire.VolumeView) []api.VolumePlace {
	var out []api.VolumePlace
	for _, n := range slices.Sorted(maps.Keys(v.OnNodes)) {
		e := v.OnNodes[n]
		p := api.VolumePlace{
			Node:       string(n),
			Staged:     e.Staging.String(),
			Step:       e.Step,
			LastError:  e.LastError,
			NextTry:    e.NextTry,
			ExpandedTo: e.ExpandedTo,
			Growth:     string(v.Volume.GrowthOn(e)),
		}
		for _, pub := range e.Publications {
			if pub.Presence.Exists() {
				p.Paths = append(p.Paths, pub.Path)
			}
		}
		for _, h := range e.Holders {
			p.Holders = append(p.Holders, api.VolumeHolder{
				PID:            h.PID,
				Command:        h.Command,
				MountNamespace: h.Namespace,
				Alloc:          string(h.Alloc),
				How:            h.How,
			})
		}
		out = append(out, p)
	}
	return out
}

// VolumeUsage makes the public form of what nodes measured of a volume.
func VolumeUsage(in *wire.VolumeUsageReply) *api.CSIVolumeUsage {
	out := &api.CSIVolumeUsage{Abnormal: in.Abnormal, Nodes: []api.CSIVolumeNodeUsage{}}
	for _, n := range in.Nodes {
		u := api.CSIVolumeNodeUsage{
			NodeID:      string(n.Node),
			Allocations: []string{},
			Bytes:       amount(n.Bytes),
			Inodes:      amount(n.Inodes),
			Error:       n.Error,
		}
		for _, id := range n.Allocs {
			u.Allocations = append(u.Allocations, string(id))
		}
		if c := n.Condition; c != nil {
			u.Condition = &api.CSIVolumeCondition{Abnormal: c.Abnormal, Message: c.Message}
		}
		if !n.At.IsZero() {
			u.Measured = &n.At
		}
		out.Nodes = append(out.Nodes, u)
	}
	return out
}

func amount(a *volume.Amount) *api.CSIVolumeAmount {
	if a == nil {
		return nil
	}
	return &api.CSIVolumeAmount{Total: a.Total, Used: a.Used, Available: a.Available}
}

// VolumeStub is the line of a volume in lists; p is its plugin, nil when nobody knows it.
func VolumeStub(v *wire.VolumeLine, p *wire.PluginView) *api.CSIVolumeListStub {
	out := &api.CSIVolumeListStub{
		ID:                string(v.ID.ID),
		Namespace:         string(v.Namespace),
		Name:              v.Name,
		ExternalID:        v.ExternalID,
		Topologies:        fromTopologies(v.Topologies),
		AccessMode:        string(v.AccessMode),
		AttachmentMode:    string(v.AttachmentMode),
		CurrentReaders:    v.Readers,
		CurrentWriters:    v.Writers,
		Schedulable:       v.Schedulable,
		PluginID:          string(v.Plugin),
		Provider:          v.Provider,
		ResourceExhausted: &time.Time{},
		CreateIndex:       v.CreateIndex,
		ModifyIndex:       v.ModifyIndex,
		CreateTime:        v.CreateTime,
		ModifyTime:        v.ModifyTime,
	}
	if p != nil {
		out.ControllerRequired = p.ControllerRequired
		out.ControllersHealthy, out.ControllersExpected = p.ControllersHealthy, p.ControllersExpected
		out.NodesHealthy, out.NodesExpected = p.NodesHealthy, p.NodesExpected
	}
	return out
}

// ToSnapshotCreate makes the internal request of a public snapshot; its secrets go over those that all share.
func ToSnapshotCreate(
	s *api.CSISnapshot, ns ids.Namespace, shared wire.Secrets, wait time.Duration, following bool,
) *wire.SnapshotCreateRequest {
	secrets := map[string]string{}
	maps.Copy(secrets, shared.Values)
	maps.Copy(secrets, s.Secrets)
	return &wire.SnapshotCreateRequest{
		Volume:     volume.ID{Namespace: ns, ID: ids.Volume(s.SourceVolumeID)},
		Name:       s.Name,
		Parameters: s.Parameters,
		Secrets:    wire.Secrets{Values: secrets},
		Wait:       wait,
		Following:  following,
	}
}

// Snapshot makes the public form of a snapshot.
func Snapshot(s *volume.Snapshot) *api.CSISnapshot {
	return &api.CSISnapshot{
		ID:                     s.ExternalID,
		ExternalSourceVolumeID: s.SourceExternalID,
		SizeBytes:              s.Size,
		CreateTime:             s.CreateTime / int64(time.Second),
		IsReady:                s.Ready,
		SourceVolumeID:         string(s.Source),
		PluginID:               string(s.Plugin),
		Name:                   s.Name,
		Parameters:             s.Parameters,
	}
}

// External makes the public form of a provider's volume.
func External(v wire.ExternalVolume) *api.CSIVolumeExternalStub {
	return &api.CSIVolumeExternalStub{
		ExternalID:               v.ExternalID,
		CapacityBytes:            v.Capacity,
		VolumeContext:            v.Context,
		CloneID:                  v.CloneID,
		SnapshotID:               v.SnapshotID,
		PublishedExternalNodeIDs: v.PublishedNodes,
		IsAbnormal:               v.Abnormal,
		Status:                   v.Status,
	}
}

// VolumeResult says what a write of a volume came to.
func VolumeResult(out *wire.VolumeWriteReply) api.CSIVolumeWriteResult {
	return api.CSIVolumeWriteResult{Outcome: out.Outcome, Changed: out.Changed, Waits: out.Waits}
}

// Expanded answers the expansion of a volume.
func Expanded(out *wire.VolumeWriteReply) *api.CSIVolumeCreateResponse {
	return &api.CSIVolumeCreateResponse{
		Volumes:  []*api.CSIVolume{Volume(&wire.VolumeView{Volume: out.Volume})},
		Warnings: WarningText(out.Warnings),
		Results:  []api.CSIVolumeWriteResult{VolumeResult(out)},
	}
}

package convert

import (
	"cmp"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert/devices"
	"berth/internal/httpapi/convert/networks"
	"berth/internal/httpapi/convert/processors"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// Node makes the public form of a node.
func Node(n *node.Node) *api.Node {
	if n == nil {
		return nil
	}
	out := &api.Node{
		ID:                    string(n.ID),
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		HTTPAddr:              n.HTTPAddr,
		Attributes:            n.Attributes,
		Meta:                  n.Meta,
		NodeResources:         resources(n),
		ReservedResources:     reserved(n),
		NodeClass:             n.NodeClass,
		NodePool:              n.NodePool,
		Links:                 map[string]string{},
		SchedulingEligibility: n.SchedulingEligibility,
		Status:                n.Status,
		StatusDescription:     n.StatusDescription,
		StatusUpdatedAt:       n.StatusUpdatedAt,
		Drivers:               drivers(n),
		HostVolumes:           hostVolumes(n),
		HostNetworks:          networks.Hosts(&n.Resources),
		CSIControllerPlugins:  map[string]*api.CSIInfo{},
		CSINodePlugins:        map[string]*api.CSIInfo{},
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
	if n.Unfollowed != "" {
		out.StatusDescription = n.Unfollowed
	}
	for _, o := range n.Orphans {
		var plugins []string
		for _, id := range o.Plugins {
			plugins = append(plugins, string(id))
		}
		out.Orphans = append(out.Orphans, &api.NodeOrphan{
			AllocID:    string(o.Alloc),
			Namespace:  string(o.Namespace),
			JobID:      string(o.Job),
			TaskGroup:  o.Group,
			Name:       o.Name,
			Reason:     o.Reason,
			Since:      o.Since,
			Processes:  o.Processes,
			Volumes:    o.Volumes,
			Plugin:     o.Plugin,
			Plugins:    plugins,
			RecordLost: o.RecordLost,
			Awaits:     o.Awaits,
		})
	}
	for _, e := range n.Events {
		out.Events = append(out.Events, &api.NodeEvent{
			Message:     e.Message,
			Subsystem:   e.Subsystem,
			Details:     e.Details,
			Timestamp:   e.Timestamp,
			CreateIndex: e.CreateIndex,
		})
	}
	for _, i := range n.CSI {
		into := out.CSINodePlugins
		if i.Role == plugin.RoleController {
			into = out.CSIControllerPlugins
		}
		if old := into[string(i.Plugin)]; old == nil || i.Healthy() {
			into[string(i.Plugin)] = CSIInfo(i)
		}
	}
	return out
}

// NodeWith makes the public form of a node with what is mounted there and has no name, and who is refused beside it.
func NodeWith(n *node.Node, with *wire.NodeGetReply) *api.Node {
	out := Node(n)
	for _, a := range with.Refused {
		out.RefusedAgents = append(out.RefusedAgents, refusedAgent(n, a))
	}
	for _, u := range with.Unknown {
		out.UnknownMounts = append(out.UnknownMounts, &api.NodeUnknownMount{
			Path:   u.Path,
			Device: u.Device,
			FSType: u.FSType,
		})
	}
	for _, e := range with.Unclaimed {
		u := &api.NodeUnclaimedVolume{
			Namespace:  string(e.Volume.Namespace),
			VolumeID:   string(e.Volume.ID),
			PluginID:   string(e.Plugin),
			ExternalID: e.ExternalID,
			State:      cmp.Or(e.Unreleased(), "staging "+string(e.Staging)),
		}
		for _, p := range e.Publications {
			u.Allocs = append(u.Allocs, string(p.Alloc))
		}
		out.UnclaimedVolumes = append(out.UnclaimedVolumes, u)
	}
	return out
}

// refusedAgent says in words why an agent is refused, and what to do.
func refusedAgent(n *node.Node, a wire.RefusedAgent) *api.NodeRefusedAgent {
	out := &api.NodeRefusedAgent{
		Address:       a.Address,
		ObeyedAddress: a.Obeyed,
		ObeyedSince:   a.ObeyedSince,
		Since:         a.Since,
		LastTry:       a.Last,
		Hint: "stop it and give it an empty data_dir; when " + a.Obeyed + " runs no more: berth node reboot-confirm " +
			"-reason … " + ids.Short(n.ID),
	}
	switch a.Why {
	case node.AdmitWaits:
		out.Reason = "it comes from another boot, and the agent at " + a.Obeyed + " may still run"
		out.Hint = "it is accepted when nothing was heard of " + a.Obeyed + " for a while; if that is the right one, " +
			"stop this one and give it an empty data_dir"
	case node.AdmitSuperseded:
		out.Reason = "a later start of an agent was accepted under this identity, at " + a.Obeyed
	default:
		out.Reason = "it is a copy: it does not follow the agent at " + a.Obeyed
	}
	return out
}

// NodeStub is the line of a node in lists.
func NodeStub(n *node.Node, withAttributes, withResources bool) *api.NodeListStub {
	out := &api.NodeListStub{
		Address:               n.Address,
		ID:                    string(n.ID),
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		NodePool:              n.NodePool,
		NodeClass:             n.NodeClass,
		Version:               n.Attributes["nomad.version"],
		SchedulingEligibility: n.SchedulingEligibility,
		Status:                n.Status,
		StatusDescription:     n.StatusDescription,
		Drivers:               drivers(n),
		HostVolumes:           hostVolumes(n),
		Orphans:               len(n.Orphans),
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
	if n.Unfollowed != "" {
		out.StatusDescription = n.Unfollowed
	}
	if withAttributes {
		out.Attributes = n.Attributes
	}
	if withResources {
		out.NodeResources, out.ReservedResources = resources(n), reserved(n)
	}
	return out
}

func resources(n *node.Node) *api.NodeResources {
	r := n.Resources
	out := &api.NodeResources{
		Cpu:            api.NodeCpuResources{CpuShares: r.CPUShares, TotalCpuCores: uint16(r.CPUCores)},
		Memory:         api.NodeMemoryResources{MemoryMB: r.MemoryMB},
		Disk:           api.NodeDiskResources{DiskMB: r.DiskMB},
		Devices:        devices.OfNode(r.Devices),
		MinDynamicPort: r.MinDynamicPort,
		MaxDynamicPort: r.MaxDynamicPort,
	}
	processors.OfNode(out, n)
	networks.OfNode(out, &r)
	return out
}

func reserved(n *node.Node) *api.NodeReservedResources {
	r := n.Reserved
	return &api.NodeReservedResources{
		Cpu:    api.NodeReservedCpuResources{CpuShares: uint64(r.CPUShares), ReservedCpuCores: r.Kept},
		Memory: api.NodeMemoryResources{MemoryMB: r.MemoryMB},
		Disk: api.NodeDiskResources{
			DiskMB: r.DiskMB,
		},
		Networks: api.NodeReservedNetworkResources{ReservedHostPorts: networks.List(r.ReservedPorts)},
	}
}

func drivers(n *node.Node) map[string]*api.DriverInfo {
	out := make(map[string]*api.DriverInfo, len(n.Drivers))
	for name, d := range n.Drivers {
		out[name] = &api.DriverInfo{
			Attributes:        d.Attributes,
			Detected:          d.Detected,
			Healthy:           d.Healthy,
			HealthDescription: d.HealthDescription,
			UpdateTime:        d.UpdateTime,
		}
	}
	return out
}

func hostVolumes(n *node.Node) map[string]*api.HostVolumeInfo {
	out := make(map[string]*api.HostVolumeInfo, len(n.HostVolumes))
	for name, v := range n.HostVolumes {
		out[name] = &api.HostVolumeInfo{Path: v.Path, ReadOnly: v.ReadOnly, Unhealthy: v.Unhealthy}
	}
	return out
}

// CSIInfo makes the public form of a plugin instance.
func CSIInfo(i *plugin.Instance) *api.CSIInfo {
	c := i.Capabilities
	out := &api.CSIInfo{
		PluginID:                 string(i.Plugin),
		AllocID:                  string(i.Alloc),
		Healthy:                  i.Healthy(),
		HealthDescription:        i.Reason,
		UpdateTime:               when(i.Updated),
		Provider:                 i.Provider,
		ProviderVersion:          i.Version,
		RequiresControllerPlugin: c.ControllerService,
		RequiresTopologies:       c.Topology,
	}
	if i.Healthy() {
		out.HealthDescription = "healthy"
	}
	if i.Role == plugin.RoleController {
		out.ControllerInfo = &api.CSIControllerInfo{
			SupportsCreateDelete:             c.CreateDelete,
			SupportsAttachDetach:             c.Attach,
			SupportsListVolumes:              c.ListVolumes,
			SupportsGetCapacity:              c.GetCapacity,
			SupportsCreateDeleteSnapshot:     c.CreateSnapshot,
			SupportsListSnapshots:            c.ListSnapshots,
			SupportsClone:                    c.Clone,
			SupportsReadOnlyAttach:           c.AttachReadOnly,
			SupportsExpand:                   c.ControllerExpand,
			SupportsListVolumesAttachedNodes: c.ListPublishedNodes,
		}
		return out
	}
	out.NodeInfo = &api.CSINodeInfo{
		ID:                      i.StorageNode,
		MaxVolumes:              i.MaxVolumes,
		RequiresNodeStageVolume: c.Stage,
		SupportsStats:           c.Stats,
		SupportsExpand:          c.NodeExpand,
	}
	if i.Topology != nil {
		out.NodeInfo.AccessibleTopology = &api.CSITopology{Segments: i.Topology.Segments}
	}
	return out
}

// eligibility is the answer to a change of whether a node is eligible.
type eligibility struct {
	EvalIDs         []string
	EvalCreateIndex uint64
	NodeModifyIndex uint64
	Index           uint64
}

// Eligibility answers a change of whether a node is eligible.
func Eligibility(out *wire.NodeEligibilityReply) any {
	a := eligibility{
		EvalIDs:         make([]string, 0, len(out.Evals)),
		EvalCreateIndex: out.EvalCreateIndex,
		NodeModifyIndex: out.NodeModifyIndex,
		Index:           out.Index,
	}
	for _, e := range out.Evals {
		a.EvalIDs = append(a.EvalIDs, string(e))
	}
	return a
}

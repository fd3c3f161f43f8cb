package csi

import (
	"context"
	"maps"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/pattern"
	"berth/internal/model/volume"
)

// pluginName is the form that the specification gives to names of plugins.
var pluginName = pattern.Of(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)

// Negotiate reads everything that the plugin tells of itself, in the order that the specification recommends, and arms
// the client with it. It may be repeated; a failed repetition leaves the earlier facts in force.
func (c *Client) Negotiate(ctx context.Context, roles Roles) (Instance, error) {
	if roles == 0 || roles&^RoleMonolith != 0 {
		return Instance{},
			fault.New(fault.Invalid, "negotiate with", pluginSubject(c.opts.Plugin),
				"no role is named; use controller, node or both")
	}
	inst := Instance{Roles: roles}
	steps := []func(context.Context, *Instance) error{c.askInfo, c.askPlugin, c.askReady}
	if roles.Has(RoleController) {
		steps = append(steps, c.askController)
	}
	if roles.Has(RoleNode) {
		steps = append(steps, c.askNode, c.askNodeInfo)
	}
	for _, step := range steps {
		if err := step(ctx, &inst); err != nil {
			return Instance{}, err
		}
	}
	kept := inst.clone()
	c.inst.Store(&kept)
	return inst, nil
}

// Instance returns a copy of the facts of the last successful Negotiate.
func (c *Client) Instance() (Instance, bool) {
	if p := c.inst.Load(); p != nil {
		return p.clone(), true
	}
	return Instance{}, false
}

func (i Instance) clone() Instance {
	i.Manifest, i.Topology = maps.Clone(i.Manifest), maps.Clone(i.Topology)
	i.Plugin = slices.Clone(i.Plugin)
	i.Expansion = slices.Clone(i.Expansion)
	i.Controller = slices.Clone(i.Controller)
	i.Node = slices.Clone(i.Node)
	return i
}

// Probe asks for the plugin's health. An absent answer to the question of readiness means ready.
func (c *Client) Probe(ctx context.Context) (Readiness, error) {
	k := c.begin(Probe, "", "", nil)
	resp := &pb.ProbeResponse{}
	if err := k.send(ctx, &pb.ProbeRequest{}, resp); err != nil {
		return Initialising, err
	}
	if r := resp.GetReady(); r != nil && !r.GetValue() {
		return Initialising, nil
	}
	return Ready, nil
}

func (c *Client) askReady(ctx context.Context, _ *Instance) error {
	r, err := c.Probe(ctx)
	if err != nil {
		return err
	}
	if r != Ready {
		k := c.begin(Probe, "", "", nil)
		e := k.refuse(codes.FailedPrecondition, fault.NotReady, volume.RetryBackoff, "the plugin is still starting",
			"it is asked again; do not restart it").refused
		e.Sent = true
		return e
	}
	return nil
}

func (c *Client) askInfo(ctx context.Context, inst *Instance) error {
	k := c.begin(GetPluginInfo, "", "", nil)
	resp := &pb.GetPluginInfoResponse{}
	if err := k.send(ctx, &pb.GetPluginInfoRequest{}, resp); err != nil {
		return err
	}
	inst.Name = resp.GetName()
	inst.VendorVersion = resp.GetVendorVersion()
	inst.Manifest = mapPB(resp.GetManifest())
	if !pluginName().MatchString(inst.Name) {
		return k.defect("the name " + quote(inst.Name) + ", which is not 1 to 63 letters, digits, dots and dashes")
	}
	if wrong := first(idFault("vendor version", inst.VendorVersion, maxString),
		mapFault("manifest", inst.Manifest)); wrong != "" {
		return k.defect(wrong)
	}
	return nil
}

func (c *Client) askPlugin(ctx context.Context, inst *Instance) error {
	k := c.begin(GetPluginCapabilities, "", "", nil)
	resp := &pb.GetPluginCapabilitiesResponse{}
	if err := k.send(ctx, &pb.GetPluginCapabilitiesRequest{}, resp); err != nil {
		return err
	}
	for _, one := range resp.GetCapabilities() {
		inst.Plugin = with(inst.Plugin, PluginCap(one.GetService().GetType()))
		inst.Expansion = with(inst.Expansion, ExpansionCap(one.GetVolumeExpansion().GetType()))
	}
	if inst.Roles.Has(RoleController) && !inst.Plugin.Has(CapController) {
		return k.refuse(codes.Unimplemented, fault.Unsupported, volume.RetryNever,
			"the plugin has no controller service",
			`set type = "node" in its csi_plugin block, or run it with the arguments that turn the controller on`).
			refused
	}
	return nil
}

func (c *Client) askController(ctx context.Context, inst *Instance) error {
	k := c.begin(ControllerGetCapabilities, "", "", nil)
	resp := &pb.ControllerGetCapabilitiesResponse{}
	if err := k.send(ctx, &pb.ControllerGetCapabilitiesRequest{}, resp); err != nil {
		return err
	}
	for _, one := range resp.GetCapabilities() {
		inst.Controller = with(inst.Controller, ControllerCap(one.GetRpc().GetType()))
	}
	return nil
}

func (c *Client) askNode(ctx context.Context, inst *Instance) error {
	k := c.begin(NodeGetCapabilities, "", "", nil)
	resp := &pb.NodeGetCapabilitiesResponse{}
	if err := k.send(ctx, &pb.NodeGetCapabilitiesRequest{}, resp); err != nil {
		if CodeOf(err) == codes.Unimplemented {
			return fault.WithHint(err,
				`the plugin has no node service here; set type = "controller" in its csi_plugin block, or run it with the arguments that turn the node service on`)
		}
		return err
	}
	for _, one := range resp.GetCapabilities() {
		inst.Node = with(inst.Node, NodeCap(one.GetRpc().GetType()))
	}
	return nil
}

// askNodeInfo tolerates UNIMPLEMENTED from plugins that do not attach: only attaching needs a node id.
func (c *Client) askNodeInfo(ctx context.Context, inst *Instance) error {
	k := c.begin(NodeGetInfo, "", "", nil)
	resp := &pb.NodeGetInfoResponse{}
	if err := k.send(ctx, &pb.NodeGetInfoRequest{}, resp); err != nil {
		if CodeOf(err) == codes.Unimplemented && !inst.Controller.Has(CapAttach) {
			return nil
		}
		return err
	}
	inst.NodeID, inst.MaxVolumes = resp.GetNodeId(), resp.GetMaxVolumesPerNode()
	if wrong := first(idFault("node id", inst.NodeID, maxNodeID),
		sizeFault("number of volumes per node", inst.MaxVolumes)); wrong != "" {
		return k.defect(wrong)
	}
	if t := resp.GetAccessibleTopology(); len(t.GetSegments()) > 0 && inst.TopologyAware() {
		places, wrong := topologiesFrom([]*pb.Topology{t})
		if wrong != "" {
			return k.defect(wrong)
		}
		inst.Topology = places[0]
	}
	return nil
}

// with adds a capability to an ascending set; 0 is the unset value of every enumeration.
func with[T ~int32](set Caps[T], c T) Caps[T] {
	at, found := slices.BinarySearch(set, c)
	if c == 0 || found {
		return set
	}
	return slices.Insert(set, at, c)
}

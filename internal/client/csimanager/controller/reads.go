package controller

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// Reads answers the servers' questions to a controller plugin. They change nothing at the provider.
type Reads struct{ Plugins instance.Plugins }

// Register serves the reads on the connection that the agent dialled.
func (r Reads) Register(s *wire.Server) {
	wire.AgentListVolumes.Serve(s, r.listVolumes)
	wire.AgentListSnapshots.Serve(s, r.listSnapshots)
	wire.AgentValidateVolume.Serve(s, r.validate)
	wire.AgentCapacity.Serve(s, r.capacity)
}

func (r Reads) capacity(ctx context.Context, req *wire.CapacityRequest) (*wire.CapacityReply, error) {
	conn, err := use(r.Plugins, req.Plugin, req.Provider)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	ask := csi.CapacityRequest{Parameters: req.Parameters, Topology: req.Topology}
	for _, c := range req.Capabilities {
		ask.Capabilities = append(ask.Capabilities, csi.CapabilityOf(c, req.MountOptions))
	}
	a, err := conn.Client.Capacity(ctx, ask)
	if err != nil {
		return nil, err
	}
	return &wire.CapacityReply{Available: a.Available, MaximumVolume: a.MaximumVolume}, nil
}

func (r Reads) listVolumes(
	ctx context.Context, req *wire.PluginReadRequest,
) (*wire.ProviderList[wire.ExternalVolume], error) {
	conn, err := use(r.Plugins, req.Plugin, req.Provider)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	page, err := conn.Client.ListVolumes(ctx,
		csi.ListVolumesRequest{MaxEntries: int32(req.PerPage), Token: req.NextToken})
	if err != nil {
		return nil, err
	}
	out := &wire.ProviderList[wire.ExternalVolume]{NextToken: page.NextToken}
	for _, e := range page.Entries {
		v := wire.ExternalVolume{
			ExternalID: e.Volume.ID,
			Capacity:   e.Volume.Capacity,
			Context:    e.Volume.Context,
			CloneID:    e.Volume.Source.VolumeID,
			SnapshotID: e.Volume.Source.SnapshotID,
		}
		if e.NodesKnown {
			v.PublishedNodes = e.NodeIDs
		}
		if e.Condition != nil {
			v.Abnormal, v.Status = e.Condition.Abnormal, e.Condition.Message
		}
		out.Items = append(out.Items, v)
	}
	return out, nil
}

func (r Reads) listSnapshots(
	ctx context.Context, req *wire.PluginReadRequest,
) (*wire.ProviderList[*volume.Snapshot], error) {
	conn, err := use(r.Plugins, req.Plugin, req.Provider)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	page, err := conn.Client.ListSnapshots(ctx,
		csi.ListSnapshotsRequest{MaxEntries: int32(req.PerPage), Token: req.NextToken, Secrets: req.Secrets.Open()})
	if err != nil {
		return nil, err
	}
	out := &wire.ProviderList[*volume.Snapshot]{NextToken: page.NextToken}
	for _, s := range page.Snapshots {
		out.Items = append(out.Items, &volume.Snapshot{
			ExternalID:       s.ID,
			SourceExternalID: s.SourceVolumeID,
			Plugin:           req.Plugin,
			Size:             s.Size,
			CreateTime:       s.CreatedAt.UnixNano(),
			Ready:            s.Ready,
		})
	}
	return out, nil
}

func (r Reads) validate(ctx context.Context, req *wire.ValidateVolumeRequest) (*wire.ValidateVolumeReply, error) {
	conn, err := r.Plugins.Use(req.Plugin, plugin.RoleController)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	ask := csi.ValidateVolumeRequest{
		VolumeID:      req.ExternalID,
		VolumeContext: req.Context,
		Parameters:    req.Parameters,
		Secrets:       req.Secrets.Open(),
	}
	for _, c := range req.Capabilities {
		ask.Capabilities = append(ask.Capabilities, csi.CapabilityOf(c, req.MountOptions))
	}
	v, err := conn.Client.ValidateVolume(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(v.Mismatches) > 0 {
		text := "the plugin confirms something else than was asked: "
		for i, m := range v.Mismatches {
			if i > 0 {
				text += "; "
			}
			text += m
		}
		return nil, fault.WithHint(fault.New(fault.Invalid, "validate", `volume "`+req.ExternalID+`"`, text),
			"ask for capabilities that the volume has")
	}
	return &wire.ValidateVolumeReply{Warning: v.Message}, nil
}

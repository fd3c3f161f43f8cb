package node

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// expand grows what is on the node (CSI spec, NodeExpandVolume): after staging where the plugin stages, else after the
// first publication.
func (k *Keeper) expand(ctx context.Context, e *entry.Entry, conn *instance.Connection) error {
	req := csi.NodeExpandRequest{VolumeID: e.Key.ExternalID, Capability: e.Staging.Args.Capability(),
		Capacity: csi.CapacityRange{Required: e.Staging.ExpandTo}}
	if pub := e.PresentPublication(); pub != "" {
		req.VolumePath = e.Pubs[pub].TaskPath
	} else {
		req.VolumePath = e.Staging.TaskPath
	}
	if !e.Staging.Skip {
		req.StagingPath = e.Staging.TaskPath
	}
	_, err := conn.Client.NodeExpand(ctx, req)
	return err
}

// WantSize asks for a node expansion of a volume that is staged here; the flow makes the call between the volume's
// other calls.
func (k *Keeper) WantSize(key volume.StagingKey, bytes int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil || !vs.entry.Staging.Presence.Exists() {
		return fault.New(fault.NotFound, "expand", entry.Describe(key), "it is not staged on this node")
	}
	if bytes > vs.entry.Staging.ExpandTo {
		vs.entry.Staging.ExpandTo = bytes
		vs.growsAnew()
		vs.touch()
	}
	k.loop.Mark(key)
	return nil
}

// growsAnew lets an expansion be tried at once, whatever came of the one before: it is asked with other arguments, or
// of another staging.
func (vs *volumeState) growsAnew() {
	vs.expandRefused = nil
	delete(vs.retries, entry.Step{Verb: entry.Expand})
}

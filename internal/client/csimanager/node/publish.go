package node

import (
	"context"
	"path/filepath"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/csimanager/instance"
	"berth/internal/port/csi"
)

type secretMap = redact.Map

// publish exposes the volume for one alloc (CSI spec, NodePublishVolume). The parent of the target is ours and closed
// to everybody, so that nothing can be written beneath an unmounted target; the target itself is the plugin's.
func (k *Keeper) publish(
	ctx context.Context, e *Entry, alloc ids.Alloc, conn *instance.Connection, secrets secretMap,
) error {
	p := e.Pubs[alloc]
	parent := filepath.Dir(p.HostPath)
	if err := ensureDir(parent); err != nil {
		return notSent{err}
	}
	if err := k.writeIDFile(parent, e, alloc); err != nil {
		return notSent{err}
	}
	a := e.Staging.Args
	req := csi.PublishRequest{
		VolumeID:       e.Key.ExternalID,
		TargetPath:     p.TaskPath,
		Capability:     a.capability(),
		ReadOnly:       p.ReadOnly || a.AccessMode.ReaderOnly(),
		PublishContext: a.PublishContext,
		VolumeContext:  a.VolumeContext,
		Secrets:        secrets,
	}
	if !e.Staging.Skip {
		req.StagingPath = e.Staging.TaskPath
	}
	return conn.Client.Publish(ctx, req)
}

// unpublish undoes a publication (CSI spec, NodeUnpublishVolume). The flow lets it happen only when the processes of
// the alloc are proven gone.
func (k *Keeper) unpublish(ctx context.Context, e *Entry, alloc ids.Alloc, conn *instance.Connection) error {
	return conn.Client.Unpublish(ctx,
		csi.UnpublishRequest{VolumeID: e.Key.ExternalID, TargetPath: e.Pubs[alloc].TaskPath})
}

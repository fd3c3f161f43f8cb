package node

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/instance"
	"berth/internal/port/csi"
)

// unpublish undoes a publication (CSI spec, NodeUnpublishVolume). The flow lets it happen only when the processes of
// the alloc are proven gone.
func (k *Keeper) unpublish(ctx context.Context, e *Entry, alloc ids.Alloc, conn *instance.Connection) error {
	return conn.Client.Unpublish(ctx,
		csi.UnpublishRequest{VolumeID: e.Key.ExternalID, TargetPath: e.Pubs[alloc].TaskPath})
}

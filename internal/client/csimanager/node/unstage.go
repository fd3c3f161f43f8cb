package node

import (
	"context"

	"berth/internal/client/csimanager/instance"
	"berth/internal/port/csi"
)

// unstage undoes the staging (CSI spec, NodeUnstageVolume). It is sent only when no publication can exist.
func (k *Keeper) unstage(ctx context.Context, e *Entry, conn *instance.Connection) error {
	if e.Staging.Skip {
		return nil
	}
	return conn.Client.Unstage(ctx, csi.UnstageRequest{VolumeID: e.Key.ExternalID, StagingPath: e.Staging.TaskPath})
}

package volumes

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// Bounds of reading one volume: it is no work that anybody waits for, and takes the place of none.
const (
	readTimeout = 10 * time.Second
	readLane    = time.Second // until another call of the volume has ended
)

// readEach asks about each volume of a plugin that lists none, and holds its record against the answer. The first
// failure ends it until the next time, for the plugin may not offer the call, or hang.
func (k *Keeper) readEach(ctx context.Context, rec *plugin.Record) (doubt bool, err error) {
	for v := range k.cfg.Store.Snapshot().VolumesByPlugin(nil, rec.ID) {
		if v.Status.Phase != volume.PhaseReady || rec.Foreign(v.Status.Provider) != "" {
			continue
		}
		before := k.cfg.Store.Snapshot()
		found, read, err := k.readVolume(ctx, before, v)
		if err != nil {
			return doubt, err
		}
		if !read {
			continue
		}
		again, err := k.observe(ctx, before, v, found)
		if err != nil {
			return doubt, err
		}
		doubt = doubt || again
	}
	return doubt, nil
}

// readVolume asks about one volume, in the lane of its controller calls; nil: the provider has none such. It is not
// read while another call has the lane, nor while nobody can be asked.
func (k *Keeper) readVolume(
	ctx context.Context, s *state.Snap, v *volume.Volume,
) (found *volume.Listed, read bool, err error) {
	executor, _ := k.cfg.Dispatch.Executor(s, v.Spec.Plugin, v.Status.HomeNode)
	if executor == "" || suspension.Call(s, v.Staging(), false) != nil {
		return nil, false, nil
	}
	wctx, cancel := context.WithTimeout(ctx, readLane)
	defer cancel()
	release, err := k.cfg.Dispatch.Lane(wctx, v.Spec.Plugin, v.Status.ExternalID)
	if err != nil {
		return nil, false, ctx.Err()
	}
	defer release()
	subject := "read " + v.ID.String()
	if k.cfg.Dispatch.Queue(k.cfg.Store.Snapshot(), v.Staging(), subject, executor) != "" {
		return nil, false, nil
	}
	report, err := k.cfg.Dispatch.Do(ctx, executor, &wire.ControllerCall{
		Kind:       wire.CallRead,
		Subject:    subject,
		Generation: v.ModifyIndex,
		Plugin:     v.Spec.Plugin,
		Provider:   v.Status.Provider,
		Timeout:    readTimeout,
		Volume:     &wire.VolumeArgs{Volume: v.ID, ExternalID: v.Status.ExternalID},
	})
	if err != nil {
		return nil, false, err
	}
	_, err = controllers.Failure(report)
	switch {
	case fault.Has(err, fault.NotFound):
		return nil, true, nil
	case err == nil && report.Read == nil:
		return nil, false, fault.New(fault.Internal, wire.CallRead, subject, "the node answered without the volume")
	}
	return report.Read, err == nil, err
}

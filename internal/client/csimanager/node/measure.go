package node

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// Published lists the volumes that allocs of this node use, with the name that each alloc has for it.
func (k *Keeper) Published() []csimanager.PublishedVolume {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []csimanager.PublishedVolume
	for key, vs := range k.vols {
		if users := vs.users(); len(users) > 0 {
			out = append(out, csimanager.PublishedVolume{Key: key, Volume: vs.entry.Volume, Users: users})
		}
	}
	return out
}

// users are the allocs that a volume is published for and that want it, with their names for it. The caller holds the
// lock.
func (vs *volumeState) users() map[ids.Alloc]string {
	out := map[ids.Alloc]string{}
	for id, p := range vs.entry.Pubs {
		if p.Wanted && p.Presence == volume.Present && vs.entry.Staging.Presence == volume.Present {
			out[id] = p.Alias
		}
	}
	return out
}

// Measure asks the plugin how full a published volume is and in which condition (CSI spec, NodeGetVolumeStats). It
// gives way to whatever else is done with the volume: it is not begun beside another call, and cut off by one that
// comes. Both are errors of kind Busy, and say nothing of the volume.
func (k *Keeper) Measure(ctx context.Context, key volume.StagingKey) (out csi.Stats, err error) {
	conn, err := k.cfg.Plugins.Use(key.Plugin, plugin.RoleNode)
	if err != nil {
		return out, err
	}
	defer conn.Release()
	k.mu.Lock()
	vs := k.vols[key]
	req, why := vs.measurable(conn.Facts.Name)
	k.mu.Unlock()
	if why != "" {
		return out, fault.New(fault.Busy, "measure", entry.Describe(key), why)
	}
	begun, err := vs.call.Read(ctx, func(ctx context.Context) (err error) {
		out, err = conn.Client.VolumeStats(ctx, req)
		return err
	})
	switch {
	case !begun:
		return out, fault.New(fault.Busy, "measure", entry.Describe(key), "another call of the volume is under way")
	case err != nil && ctx.Err() == nil && fault.Has(err, fault.Canceled):
		return out, fault.Wrap(err, fault.Busy, "", "")
	}
	return out, err
}

// measurable builds the question about a volume that somebody uses; else it says why there is none. The caller holds
// the lock; vs may be nil.
func (vs *volumeState) measurable(provider string) (req csi.StatsRequest, why string) {
	if vs == nil {
		return req, "it is not published on this node"
	}
	e := vs.entry
	users := vs.users()
	for _, id := range e.Allocs() {
		if _, uses := users[id]; !uses {
			continue
		}
		req = csi.StatsRequest{VolumeID: e.Key.ExternalID, VolumePath: e.Pubs[id].TaskPath}
		if !e.Staging.Skip {
			req.StagingPath = e.Staging.TaskPath
		}
		return req, plugin.Foreign(e.Key.Plugin, e.Provider, provider)
	}
	return req, "it is not published on this node"
}

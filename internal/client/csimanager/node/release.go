package node

import (
	"cmp"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// ReleaseVolume takes the word of a person in the place of a plugin that keeps failing to unstage: nothing is left of
// the volume. It is refused as long as anything here says otherwise.
func (k *Keeper) ReleaseVolume(key volume.StagingKey, reason, by string) error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return fault.New(fault.NotFound, "release", entry.Describe(key), "this node holds nothing of it")
	}
	if why := cmp.Or(evidence.Against(vs.entry, vs.flight.verb != "", table), k.cfg.Holding.Pinned(key)); why != "" {
		return fault.New(fault.Conflict, "release", entry.Describe(key), why)
	}
	_, ours := evidence.Traces(vs.entry, entry.Step{Verb: entry.Unstage})
	for _, path := range ours {
		if err := table.RemoveEmpty(path); err != nil {
			k.cfg.Log.Warn("what a plugin left behind is kept", logkey.Path, path, logkey.Error, err)
		}
	}
	vs.entry.Staging.Presence = volume.Absent
	vs.entry.Serving, vs.entry.Unanswered = nil, nil
	vs.entry.Undone = &volume.Undone{Proof: volume.ProofAttested, Reason: reason, By: by}
	vs.entry.Staging.Device = entry.Device{}
	delete(vs.retries, entry.Step{Verb: entry.Unstage})
	vs.lastErr = nil
	vs.servers.abandoned = true
	vs.touch()
	k.cfg.Log.Warn("a staging counts as undone because a person said so", logkey.Plugin, key.Plugin, logkey.Volume,
		key.ExternalID, "reason", reason, "by", by)
	k.changed.Notify()
	k.loop.Mark(key)
	return nil
}

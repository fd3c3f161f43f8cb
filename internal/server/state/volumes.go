package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/base/instants"
	"berth/internal/model/volume"
)

// Volumes names the table of volumes.
const Volumes = "volumes"

const (
	byPlugin   = "plugin"
	byExternal = "external"
	byVolume   = "volume"
	byAlloc    = "alloc"
)

var volumes = &table[volume.Volume]{
	name: Volumes,
	key:  func(v *volume.Volume) Key { return volumeKey(v.ID) },
	indexes: []index[volume.Volume]{
		one(byPlugin, func(v *volume.Volume) Key { return KeyOf(v.Spec.Plugin) }),
		one(byExternal, func(v *volume.Volume) Key {
			if v.Status.ExternalID == "" {
				return ""
			}
			return stagingKey(v.Staging())
		}),
	},
	stamp:    stamping(func(o *volume.Volume) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(v *volume.Volume) uint64 { return v.ModifyIndex },
	news:     func(tx *Tx, v *volume.Volume) { tx.tell(News{Volume: v.ID}); tx.tell(News{Staging: v.Staging()}) },
}

func stagingKey(k volume.StagingKey) Key { return KeyOf(string(k.Plugin), k.ExternalID) }

func volumeKey(id volume.ID) Key { return KeyOf(string(id.Namespace), string(id.ID)) }

// Volume returns a volume, or nil.
func (s *Snap) Volume(w *Watch, id volume.ID) *volume.Volume {
	return volumes.get(s, w, volumeKey(id))
}

// Volumes yields a namespace's volumes (or all) whose id begins with prefix, by namespace and id.
func (s *Snap) Volumes(w *Watch, ns ids.Namespace, prefix string) iter.Seq[*volume.Volume] {
	return matching(volumes.scan(s, w, inNamespace(ns, prefix)), prefix, nameOfVolume)
}

// VolumesFrom yields those of Volumes that do not come before from, whose namespace it is; the watch sees all of them.
func (s *Snap) VolumesFrom(w *Watch, from volume.ID, prefix string) iter.Seq[*volume.Volume] {
	all := inNamespace(from.Namespace, prefix)
	return matching(volumes.scanFrom(s, w, all, volumeKey(from)), prefix, nameOfVolume)
}

func nameOfVolume(v *volume.Volume) string { return string(v.ID.ID) }

// VolumesByPlugin yields a plugin's volumes, by namespace and id.
func (s *Snap) VolumesByPlugin(w *Watch, id ids.Plugin) iter.Seq[*volume.Volume] {
	return volumes.find(s, w, byPlugin, KeyOf(id))
}

// VolumesByExternalID yields the volumes that name the provider's object (plugin, external id). Only records in phase
// conflict may share it with another.
func (s *Snap) VolumesByExternalID(w *Watch, id ids.Plugin, external string) iter.Seq[*volume.Volume] {
	return volumes.find(s, w, byExternal, KeyOf(string(id), external))
}

// VolumeOf returns the registration of a provider's volume, or nil: nobody registered it, or it was forgotten.
func (s *Snap) VolumeOf(w *Watch, k volume.StagingKey) *volume.Volume {
	for v := range s.VolumesByExternalID(w, k.Plugin, k.ExternalID) {
		if v.Status.Phase != volume.PhaseConflict {
			return v
		}
	}
	return nil
}

// PutVolume stores a volume; times that are zero become the command's.
func (tx *Tx) PutVolume(v *volume.Volume) {
	if v.CreateTime == 0 {
		v.CreateTime = instants.Nanos(tx.stamp.Time)
	}
	v.ModifyTime = instants.Nanos(tx.stamp.Time)
	volumes.put(tx, v)
}

// DeleteVolume forgets a volume.
func (tx *Tx) DeleteVolume(id volume.ID) bool { return volumes.drop(tx, volumeKey(id)) }

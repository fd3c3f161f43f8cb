package entry

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Reported is what the servers hear of an entry's staging and publications: as they are now, and what the saved
// record has beside it. What is not durably gone is still there. saved is nil where there is no record.
func Reported(now, saved *Entry) (staging volume.Presence, pubs []volume.InventoryPublication) {
	staging = now.Staging.Presence
	by := map[ids.Alloc]volume.InventoryPublication{}
	if saved != nil {
		staging = atLeast(staging, saved.Staging.Presence)
		for id, p := range saved.Pubs {
			if p.Presence.Exists() {
				by[id] = volume.InventoryPublication{
					Alloc:    id,
					Epoch:    p.Epoch,
					Presence: volume.Uncertain,
					Path:     p.HostPath,
					ReadOnly: p.ReadOnly,
					Received: p.Received,
				}
			}
		}
	}
	for id, p := range now.Pubs {
		by[id] = volume.InventoryPublication{
			Alloc:    id,
			Epoch:    p.Epoch,
			Presence: atLeast(p.Presence, by[id].Presence),
			Wanted:   p.Wanted,
			Path:     p.HostPath,
			ReadOnly: p.ReadOnly || p.SeenReadOnly,
			Received: p.Received,
		}
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		pubs = append(pubs, by[id])
	}
	return staging, pubs
}

// atLeast is the present state, or uncertain when only the disk says that there is something.
func atLeast(now, disk volume.Presence) volume.Presence {
	if now == volume.Absent && disk.Exists() {
		return volume.Uncertain
	}
	return now
}

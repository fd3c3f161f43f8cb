package state

import (
	"slices"

	"berth/internal/base/ids"
)

// GiveOver notes another provider with all of a plugin that one has: volumes, snapshots and what stays of volumes that
// were forgotten by force. It returns how many things that were.
func (tx *Tx) GiveOver(id ids.Plugin, from, to string) (count int) {
	for _, v := range slices.Collect(tx.VolumesByPlugin(nil, id)) {
		if v.Status.Provider == from {
			n := *v
			n.Status.Provider = to
			tx.PutVolume(&n)
			count++
		}
	}
	for _, sn := range slices.Collect(tx.VolumeSnapshots(nil)) {
		if sn.Plugin == id && sn.Provider == from {
			n := *sn
			n.Provider = to
			tx.PutVolumeSnapshot(&n)
			count++
		}
	}
	for _, t := range slices.Collect(tx.Tombstones(nil)) {
		if t.Plugin == id && t.Provider == from {
			n := *t
			n.Provider = to
			tx.PutTombstone(&n)
			count++
		}
	}
	return count
}

package node

import (
	"context"
	"fmt"
	"path/filepath"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Dirty reports whether anything is not on disk yet.
func (k *Keeper) Dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, vs := range k.vols {
		if vs.record.Journal != entry.Current {
			return true
		}
	}
	return false
}

// Entries counts the entries that the keeper holds.
func (k *Keeper) Entries() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.vols)
}

// Pass works on one volume as the keeper's loop does.
func (k *Keeper) Pass(ctx context.Context, key volume.StagingKey) error {
	_, err := k.work(ctx, key)
	return err
}

// Marked lists the volumes that the keeper's loop is to look at.
func (k *Keeper) Marked() (out []volume.StagingKey) {
	for _, w := range k.loop.Pending() {
		out = append(out, w.Key)
	}
	return out
}

// The parts of a report, as the reporter takes them.
func (k *Keeper) BeginReport(full bool) []volume.InventoryEntry {
	entries, _, _ := k.Report(full)
	return entries
}

func (k *Keeper) Acknowledge(entries []volume.InventoryEntry, reply *wire.InventoryReply) {
	k.acknowledge(entries, reply)
}

// StagingPath and TargetPath are where things lie beneath a plugin's base.
func StagingPath(base, externalID string) string {
	return filepath.Join(base, volume.StagingTail(externalID))
}

func TargetPath(base, externalID string, alloc ids.Alloc) string {
	return filepath.Join(base, evidence.TargetTail(externalID, alloc))
}

// Show describes every entry for the message of a failed test.
func (k *Keeper) Show() (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, vs := range k.vols {
		out = append(out,
			fmt.Sprintf("%s: %+v, disk %s, servers %s, %s, %v", entry.Describe(key), *vs.entry, vs.record.Journal,
				vs.record.Servers, vs.status.text, vs.lastErr))
	}
	return out
}

// ReadingsEnded has no reading count any more as one that may go on in its plugin.
func (k *Keeper) ReadingsEnded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readingEnds = 0
}

package node

import (
	"context"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Inventory returns everything that the node knows, or only what the servers have not acknowledged.
func (k *Keeper) Inventory(full bool) []volume.InventoryEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.InventoryEntry
	for _, l := range k.vols {
		if full || !l.reported {
			out = append(out, l.report())
		}
	}
	return out
}

// report is the entry as the servers see it.
func (l *lane) report() volume.InventoryEntry {
	e := l.entry
	r := volume.InventoryEntry{StagingKey: e.Key, Volume: e.Volume, Staging: e.Staging.Presence,
		Generation: e.Staging.Args.Generation, ExpandedTo: e.Staging.ExpandedTo, Step: l.status}
	if l.lastErr != nil {
		r.LastError = l.lastErr.Error()
	}
	for _, id := range e.allocs() {
		p := e.Pubs[id]
		r.Publications = append(r.Publications, volume.InventoryPublication{Alloc: id, Epoch: p.Epoch, Presence: p.Presence,
			Wanted: p.Wanted, Path: p.HostPath, ReadOnly: p.ReadOnly || p.SeenReadOnly})
	}
	return r
}

// Reporter sends the inventory: everything at each connect, then what changed, at once and coalesced while a report is
// under way. Run one per session with the servers.
type Reporter struct {
	Keeper *Keeper
	Sink   csimanager.InventorySink
	// AllocIndex returns the index of the newest alloc set of this session.
	AllocIndex func() uint64
}

// Run reports until ctx ends. It returns an error when the session failed; the client opens another.
func (r Reporter) Run(ctx context.Context) error {
	full := true
	for {
		ch := r.Keeper.changed.C()
		entries := r.Keeper.beginReport(full)
		if full || len(entries) > 0 {
			reply, err := r.Sink.SendInventory(ctx, &wire.InventoryReport{Full: full, AllocIndex: r.AllocIndex(), Entries: entries})
			if err != nil {
				r.Keeper.unreport(entries)
				return err
			}
			full = false
			if err := r.Keeper.acknowledge(reply); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ch:
			if pause(ctx, coalesce) {
				return nil
			}
		}
	}
}

// coalesce is how long a burst of steps is gathered into one report; far below what a person notices.
const coalesce = 2 * time.Millisecond

func pause(ctx context.Context, d time.Duration) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-t.C:
		return false
	}
}

// beginReport takes what is to be sent and counts it as reported; a change during the send takes that back.
func (k *Keeper) beginReport(full bool) []volume.InventoryEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.InventoryEntry
	for _, l := range k.vols {
		// A state that is not on disk yet is not told: the save's notification brings the reporter back.
		if full || !l.reported && !l.dirty {
			out = append(out, l.report())
			l.reported = true
		}
	}
	return out
}

func (k *Keeper) unreport(entries []volume.InventoryEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range entries {
		if l := k.vols[entries[i].StagingKey]; l != nil {
			l.reported = false
		}
	}
}

// acknowledge erases what the servers took note of, and withdraws wants whose claims were ended by proof.
func (k *Keeper) acknowledge(reply *wire.InventoryReply) error {
	k.mu.Lock()
	for _, v := range reply.Void {
		l := k.vols[v.StagingKey]
		if l == nil || l.entry.Pubs[v.Alloc] == nil || l.entry.Pubs[v.Alloc].Epoch != v.Epoch || !l.entry.Pubs[v.Alloc].Wanted {
			continue
		}
		k.cfg.Log.Warn("the claim of this allocation was ended by proof; its volume is cleaned up", logkey.Alloc, v.Alloc, logkey.Volume, v.ExternalID)
		l.entry.Pubs[v.Alloc].Wanted, l.dirty, l.reported = false, true, false
		k.loop.Mark(v.StagingKey)
	}
	k.mu.Unlock()
	return k.erase(reply.Acked)
}

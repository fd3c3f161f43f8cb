package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// report is the entry as the servers see it. It may tell more than is on disk, never less: what is not known durably to
// be gone is still there.
func (l *lane) report() volume.InventoryEntry {
	e := l.entry
	r := volume.InventoryEntry{StagingKey: e.Key, Volume: e.Volume, Staging: e.Staging.Presence,
		Generation: e.Staging.Args.Generation, ExpandedTo: e.Staging.ExpandedTo, Step: l.status}
	if l.lastErr != nil {
		r.LastError = l.lastErr.Error()
	}
	for s, re := range l.retries {
		if re.err != nil && (r.NextTry.IsZero() || re.next.Before(r.NextTry)) && re.next.Before(time.Now().Add(noRetry/2)) {
			r.NextTry, r.LastError = re.next.UTC(), string(s.Verb)+": "+re.err.Error()
		}
	}
	pubs := map[ids.Alloc]volume.InventoryPublication{}
	if l.saved != nil {
		r.Staging = atLeast(r.Staging, l.saved.Staging.Presence)
		for id, p := range l.saved.Pubs {
			if p.Presence.Exists() {
				pubs[id] = volume.InventoryPublication{Alloc: id, Epoch: p.Epoch, Presence: volume.Uncertain, Path: p.HostPath, ReadOnly: p.ReadOnly}
			}
		}
	}
	for id, p := range e.Pubs {
		pubs[id] = volume.InventoryPublication{Alloc: id, Epoch: p.Epoch, Presence: atLeast(p.Presence, pubs[id].Presence),
			Wanted: p.Wanted, Path: p.HostPath, ReadOnly: p.ReadOnly || p.SeenReadOnly}
	}
	for _, id := range slices.Sorted(maps.Keys(pubs)) {
		r.Publications = append(r.Publications, pubs[id])
	}
	return r
}

// atLeast is the present state, or uncertain when only the disk says that there is something.
func atLeast(now, disk volume.Presence) volume.Presence {
	if now == volume.Absent && disk.Exists() {
		return volume.Uncertain
	}
	return now
}

// Reporter sends the inventory: everything at each connect, then what changed, at once and coalesced while a report is
// under way. Run one per session with the servers.
type Reporter struct {
	Keeper *Keeper
	Sink   csimanager.InventorySink
	// AllocIndex returns the index of the newest alloc set of this session.
	AllocIndex func() uint64
}

// Run reports until ctx ends. It returns an error when the session failed; the client opens another. A report names the
// one that it follows: one that was delayed on its way never overwrites a later one.
func (r Reporter) Run(ctx context.Context) error {
	full, prev := true, uint64(0)
	for {
		ch := r.Keeper.changed.C()
		index := r.AllocIndex() // before the entries: they may be newer than it, never older
		entries, tell := r.Keeper.beginReport(full)
		if full || tell || len(entries) > 0 {
			reply, err := r.Sink.SendInventory(ctx, &wire.InventoryReport{Full: full, AllocIndex: index, Prev: prev, Entries: entries})
			if err != nil {
				r.Keeper.unreport(entries)
				return err
			}
			prev = reply.Head
			if reply.Stale {
				r.Keeper.unreport(entries)
				full = true
				continue
			}
			full = false
			if err := r.Keeper.acknowledge(entries, reply); err != nil {
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
func (k *Keeper) beginReport(full bool) (out []volume.InventoryEntry, tell bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tell, k.tell = k.tell, false
	for _, l := range k.vols {
		if full || !l.reported {
			out = append(out, l.report())
			l.reported = true
		}
	}
	slices.SortFunc(out, func(a, b volume.InventoryEntry) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	return out, tell
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

// acknowledge erases what the servers took note of, lets be made what they now know of, and withdraws wants whose claims
// were ended by proof.
func (k *Keeper) acknowledge(entries []volume.InventoryEntry, reply *wire.InventoryReply) error {
	void := map[volume.PublicationKey]volume.Epoch{}
	for _, v := range reply.Void {
		void[v.PublicationKey] = v.Epoch
	}
	k.mu.Lock()
	for i := range entries {
		l := k.vols[entries[i].StagingKey]
		if l == nil {
			continue
		}
		for _, p := range entries[i].Publications {
			key := volume.PublicationKey{StagingKey: entries[i].StagingKey, Alloc: p.Alloc}
			own := l.entry.Pubs[p.Alloc]
			if own == nil || !p.Wanted || own.Epoch != p.Epoch {
				continue
			}
			if epoch, gone := void[key]; gone && epoch == p.Epoch {
				k.cfg.Log.Warn("the claim of this allocation has ended; its volume is cleaned up", logkey.Alloc, p.Alloc, logkey.Volume, key.ExternalID)
				l.withdraw(p.Alloc)
			} else if l.noted[p.Alloc] != p.Epoch {
				l.noted[p.Alloc] = p.Epoch
			} else {
				continue
			}
			k.loop.Mark(key.StagingKey)
		}
	}
	k.mu.Unlock()
	return k.erase(reply.Acked)
}

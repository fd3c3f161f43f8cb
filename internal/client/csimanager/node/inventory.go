package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// report is the entry as the servers see it. It may tell more than is on disk, never less: what is not known durably to
// be gone is still there.
func (vs *volumeState) report() volume.InventoryEntry {
	e := vs.entry
	r := volume.InventoryEntry{
		StagingKey: e.Key,
		Volume:     e.Volume,
		Staging:    e.Staging.Presence,
		Generation: e.Staging.Args.Generation,
		ExpandedTo: e.Staging.ExpandedTo,
		Step:       vs.status,
	}
	if vs.lastErr != nil {
		r.LastError = vs.lastErr.Error()
	}
	for s, re := range vs.retries {
		if re.err != nil && (r.NextTry.IsZero() || re.next.Before(r.NextTry)) &&
			re.next.Before(time.Now().Add(noRetry/2)) {
			r.NextTry, r.LastError = re.next.UTC(), string(s.Verb)+": "+re.err.Error()
		}
	}
	pubs := map[ids.Alloc]volume.InventoryPublication{}
	if vs.saved != nil {
		r.Staging = atLeast(r.Staging, vs.saved.Staging.Presence)
		for id, p := range vs.saved.Pubs {
			if p.Presence.Exists() {
				pubs[id] = volume.InventoryPublication{
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
	for id, p := range e.Pubs {
		pubs[id] = volume.InventoryPublication{
			Alloc:    id,
			Epoch:    p.Epoch,
			Presence: atLeast(p.Presence, pubs[id].Presence),
			Wanted:   p.Wanted,
			Path:     p.HostPath,
			ReadOnly: p.ReadOnly || p.SeenReadOnly,
			Received: p.Received,
		}
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
// under way. Run one per connection to the servers.
type Reporter struct {
	Keeper  *Keeper
	Servers Servers
}

// Servers are whom a node reports to; the client's session implements it.
type Servers interface {
	// SendInventory delivers a report, fills in who reports, and returns the acknowledgement.
	SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error)
	// Seen is the newest alloc set that the node has acted on.
	Seen() lineage.Point
	// Marked returns a channel that is closed when the servers' leadership changed, or Seen is a whole set of allocs.
	Marked() <-chan struct{}
}

// Run reports until ctx ends. It returns an error when the connection failed; the client runs another. A report names
// the one that it follows: one that was delayed on its way never overwrites a later one.
func (r Reporter) Run(ctx context.Context) error {
	full := true
	var prev, reported uint64
	mark, caughtUp := "", false
	for {
		ch, marked := r.Keeper.changed.C(), r.Servers.Marked()
		at := r.Servers.Seen() // before the entries: they may be newer than it, never older
		if at.Mark != mark {
			full, mark = true, at.Mark // another leadership asks anew what there is
		}
		entries, due := r.Keeper.beginReport(full)
		// A node that has caught up says so, for by its silence claims end that are newer than what it had seen.
		if full || due || len(entries) > 0 || caughtUp && at.Index > reported {
			reply, err := r.Servers.SendInventory(ctx,
				&wire.InventoryReport{Full: full, At: at, Prev: prev, Entries: entries})
			if err != nil {
				return err // the next run begins with everything
			}
			prev = reply.Head
			if reply.Stale {
				full = true
				continue
			}
			full, reported = false, at.Index
			r.Keeper.acknowledge(entries, reply)
		}
		caughtUp = false
		select {
		case <-ctx.Done():
			return nil
		case <-marked:
			caughtUp = true
		case <-ch:
			if !retry.Sleep(ctx, coalesce) {
				return nil
			}
		}
	}
}

// coalesce is how long a burst of steps is gathered into one report; far below what a person notices.
const coalesce = 2 * time.Millisecond

// beginReport takes what is to be sent, and holds it to be under way until the servers acknowledge it.
func (k *Keeper) beginReport(full bool) (out []volume.InventoryEntry, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due, k.due = k.due, false
	for _, vs := range k.vols {
		if vs.record.named(full, vs.entry.quiet()) {
			out = append(out, vs.report())
			vs.on(reporting)
		}
	}
	slices.SortFunc(out, func(a, b volume.InventoryEntry) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	return out, due
}

// acknowledge takes the servers' answer to a report: what was quiet may go, what was wanted may be made, and wants
// whose claims were ended by proof are withdrawn.
func (k *Keeper) acknowledge(entries []volume.InventoryEntry, reply *wire.InventoryReply) {
	void, quiet := map[wire.VoidClaim]bool{}, map[volume.StagingKey]bool{}
	for _, v := range reply.Void {
		void[v] = true
	}
	for _, key := range reply.Acked {
		quiet[key] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range entries {
		key := entries[i].StagingKey
		vs := k.vols[key]
		if vs == nil {
			continue
		}
		if quiet[key] {
			vs.on(dropped)
			k.loop.Mark(key)
			continue
		}
		vs.on(answered)
		for _, p := range entries[i].Publications {
			own := vs.entry.Pubs[p.Alloc]
			if own == nil || !own.Wanted || !p.Wanted || own.Epoch != p.Epoch {
				continue // it has changed its mind since
			}
			if void[wire.VoidClaim{
				PublicationKey: volume.PublicationKey{StagingKey: key, Alloc: p.Alloc},
				Epoch:          p.Epoch,
			}] {
				k.cfg.Log.Warn("the claim of this allocation has ended; its volume is cleaned up", logkey.Alloc,
					p.Alloc, logkey.Volume, key.ExternalID)
				vs.withdraw(p.Alloc)
			} else if known, ok := vs.acknowledged[p.Alloc]; ok && known == p.Epoch {
				continue
			} else {
				vs.acknowledged[p.Alloc] = p.Epoch
			}
			k.loop.Mark(key)
		}
	}
}

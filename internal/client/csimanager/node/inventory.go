package node

import (
	"cmp"
	"slices"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// report is the entry as the servers see it. It may tell more than is on disk, never less: what is not known durably to
// be gone is still there.
func (vs *volumeState) report() volume.InventoryEntry {
	e := vs.entry
	shown := vs.shown()
	r := volume.InventoryEntry{
		StagingKey: e.Key,
		Volume:     e.Volume,
		Generation: e.Staging.Args.Generation,
		ExpandedTo: e.Staging.ExpandedTo,
		Undone:     e.Undone,
		Provider:   e.Provider,
		Step:       shown.step,
		LastError:  cmp.Or(shown.lastError, e.Staging.Dead),
		NextTry:    shown.nextTry,
	}
	r.Staging, r.Publications = entry.Reported(e, vs.saved)
	return r
}

// shown is what people read of a volume on this node.
type shown struct {
	step, lastError string
	nextTry         time.Time
}

// shown tells what the volume does or waits for, and the failure of what is to be done about it. An error belongs to a
// step: that of a step which the facts do not ask for any more says nothing about the present.
func (vs *volumeState) shown() shown {
	t := shown{step: vs.status.text}
	if vs.lastErr != nil {
		t.lastError = vs.lastErr.Error()
	}
	for _, s := range vs.status.steps {
		r := vs.retries[s]
		if r.err != nil && (t.nextTry.IsZero() || r.next.Before(t.nextTry)) &&
			r.next.Before(time.Now().Add(noRetry/2)) {
			t.nextTry, t.lastError = r.next.UTC(), string(s.Verb)+": "+r.err.Error()
		}
	}
	if t.nextTry.IsZero() && vs.expandRefused != nil && vs.entry.Ungrown() {
		t.lastError = volume.GrowthRefused + vs.expandRefused.Error()
	}
	return t
}

// reportOf is the whole report of an entry: with who holds it.
func (k *Keeper) reportOf(vs *volumeState) volume.InventoryEntry {
	r := vs.report()
	r.Holders = k.cfg.Holding.Holders(r.StagingKey)
	return r
}

// Changed implements reporter.Inventory.
func (k *Keeper) Changed() <-chan struct{} { return k.changed.C() }

// News implements reporter.Inventory.
func (k *Keeper) News() (n csimanager.News) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.due {
		n = csimanager.UnderWay // with the end of the alloc
	}
	for _, vs := range k.vols {
		n = max(n, vs.news())
	}
	return n
}

// news is the most urgent of what the servers have not heard of a volume. A step that goes well is superseded by the
// next before a person would read of it, and the last one by the alloc's report that it runs, or has ended.
func (vs *volumeState) news() csimanager.News {
	switch {
	case vs.pressing():
		return csimanager.Pressing
	case !vs.record.Named(false, vs.entry.Quiet()):
		return csimanager.NoNews
	case vs.status.obstructed || vs.lastErr != nil || vs.expandRefused != nil || vs.entry.Staging.Dead != "",
		vs.servers.abandoned:
		return csimanager.Standing
	}
	return csimanager.UnderWay
}

// pressing reports whether somebody waits until the servers hear what is new of a volume: an alloc whose want they have
// to acknowledge, or who asked for another size. The end of a use the servers learn with the end of its alloc: before
// that they do nothing about it.
func (vs *volumeState) pressing() bool {
	if vs.record.Servers == entry.Current {
		return false
	}
	for id, p := range vs.entry.Pubs {
		if known, ok := vs.acknowledged[id]; p.Wanted && (!ok || known != p.Epoch) {
			return true
		}
	}
	return vs.servers.entry.Staging == volume.Present && vs.entry.Staging.ExpandedTo > vs.servers.entry.ExpandedTo
}

// Report takes what is to be sent, and holds it to be under way until the servers acknowledge it.
func (k *Keeper) Report(full bool) (out []volume.InventoryEntry, unknown []volume.UnknownMount, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	unknown = k.unknown
	due, k.due = k.due, false
	for _, vs := range k.vols {
		if vs.record.Named(full, vs.entry.Quiet()) {
			out = append(out, k.reportOf(vs))
			vs.on(entry.Reporting)
		}
	}
	slices.SortFunc(out, func(a, b volume.InventoryEntry) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	return out, unknown, due
}

// Repeat implements reporter.Inventory.
func (k *Keeper) Repeat() (out []volume.InventoryEntry, unknown []volume.UnknownMount, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.due {
		return nil, nil, false
	}
	for _, vs := range k.vols {
		switch quiet := vs.entry.Quiet(); {
		case vs.record.Named(false, quiet):
			return nil, nil, false
		case vs.record.Named(true, quiet):
			out = append(out, k.reportOf(vs))
		}
	}
	return out, k.unknown, true
}

// handOver takes over to whom volumes were given that the node made with another provider.
func (k *Keeper) handOver(owners []wire.VolumeOwner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range owners {
		vs := k.vols[o.StagingKey]
		if vs == nil || vs.entry.Provider == o.Provider {
			continue
		}
		if vs.entry.Provider != "" {
			k.cfg.Log.Warn("a volume was handed over to another provider", logkey.Plugin, o.Plugin, logkey.Volume,
				o.ExternalID, "from", vs.entry.Provider, "to", o.Provider)
		}
		vs.owned(o.Provider)
		for s, r := range vs.retries {
			r.next = time.Now()
			vs.retries[s] = r
		}
		k.loop.Mark(o.StagingKey)
	}
}

// Answered implements reporter.Inventory.
func (k *Keeper) Answered(entries []volume.InventoryEntry, reply *wire.InventoryReply) {
	k.nameUnknown(reply.Claims) // before anything is made at a path where something is mounted
	k.handOver(reply.Owners)
	k.acknowledge(entries, reply)
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
			vs.on(entry.Dropped)
			k.loop.Mark(key)
			continue
		}
		vs.on(entry.Answered)
		vs.servers.entry = entries[i]
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

package broker

import (
	"context"
	"time"

	"berth/internal/model/eval"
	"berth/internal/server/state"
)

// follow looks at the state after every command: at the evaluations that are not over, and at whether something changed
// that a blocked one waits for. Commands that come while it looks are looked at together.
func (b *Broker) follow(ctx context.Context) error {
	var last uint64
	for {
		snap, err := b.store.SnapshotAt(ctx, last+1)
		if err != nil {
			return err
		}
		last = snap.Index()
		b.mu.Lock()
		if at := snap.TableIndex(state.Evals); at > b.news.evals {
			b.news.evals = at
			b.sync(snap)
		}
		b.unblock(snap)
		b.mu.Unlock()
	}
}

// sync makes the broker know exactly the evaluations that the state says are not over.
func (b *Broker) sync(snap *state.Snap) {
	index := snap.Index()
	there := make(map[*item]bool, len(b.evals))
	for e := range snap.OpenEvals(nil) {
		if at, settled := b.settled[e.ID]; settled {
			if index < at {
				continue // this state is older than what a worker committed
			}
			delete(b.settled, e.ID)
		}
		it := b.evals[e.ID]
		if it == nil {
			it = b.add(e)
		} else if e.ModifyIndex > it.eval.ModifyIndex {
			it.eval = e
			if it.place != withAWork {
				b.remove(it)
				b.file(it)
			}
		}
		there[it] = true
	}
	for _, it := range b.evals {
		if !there[it] && it.place != withAWork {
			b.remove(it)
			b.forget(it)
			b.promote(it.job)
		}
	}
	for id, at := range b.settled {
		if index >= at {
			delete(b.settled, id)
		}
	}
}

// add takes up an evaluation that was not known.
func (b *Broker) add(e *eval.Eval) *item {
	it := &item{eval: e, job: Job{e.Namespace, e.Job}}
	b.evals[e.ID] = it
	b.jobs[it.job] = append(b.jobs[it.job], it)
	b.file(it)
	return it
}

// file puts a new evaluation where it belongs.
func (b *Broker) file(it *item) {
	switch {
	case it.eval.Status == eval.StatusBlocked:
		it.place = inBlocked
		it.seen = it.eval.SnapshotIndex
		it.storage = true
		it.scanned = false
		b.waiting++
	case it.eval.WaitUntil.After(time.Now()):
		b.delay(it, it.eval.WaitUntil)
	default:
		it.place = nowhere
		b.promote(it.job)
	}
	b.changed.Notify()
}

// storageTables hold all that decides about volumes.
var storageTables = []string{state.Volumes, state.Claims, state.Attachments, state.Inventories, state.Plugins,
	state.Shortages, state.Recoveries, state.Evidences}

// unblock makes blocked evaluations ready for which something changed since they were looked at last. Every input of
// the scheduler is among the tables; whoever is woken in vain only looks once more.
func (b *Broker) unblock(snap *state.Snap) {
	if b.waiting == 0 {
		return
	}
	var blocked []*item
	since := b.news.allocs
	for _, it := range b.evals {
		if it.place != inBlocked {
			continue
		}
		blocked = append(blocked, it)
		if !it.scanned {
			since = min(since, it.seen)
		}
	}
	nodes := snap.TableIndex(state.Nodes)
	storage := uint64(0)
	for _, t := range storageTables {
		storage = max(storage, snap.TableIndex(t))
	}
	b.scan(snap, since)
	for _, it := range blocked {
		it.scanned = true
		if nodes > it.seen || it.storage && storage > it.seen || b.news.ended > it.seen ||
			b.news.jobs[it.job] > it.seen {
			b.remove(it)
			b.promote(it.job)
			b.debug("a blocked evaluation is looked at again", it)
		}
	}
}

// scan finds what allocs gave back, and which jobs' allocs changed, after an index.
func (b *Broker) scan(snap *state.Snap, since uint64) {
	now := snap.TableIndex(state.Allocs)
	if now <= since {
		return
	}
	for a := range snap.AllocsSince(since + 1) {
		if a.Terminal() {
			b.news.ended = max(b.news.ended, a.ModifyIndex)
		}
		if job := (Job{a.Namespace, a.Job}); len(b.jobs[job]) > 0 {
			b.news.jobs[job] = max(b.news.jobs[job], a.ModifyIndex)
		}
	}
	b.news.allocs = max(b.news.allocs, now)
}

// news is up to which index the state was looked at, and what was found.
type news struct {
	evals  uint64
	allocs uint64
	ended  uint64         // the last change by which an alloc gave something back
	jobs   map[Job]uint64 // the last change of an alloc of a job that has evaluations here
}

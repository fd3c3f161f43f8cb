package broker

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
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
		b.look(snap)
	}
}

// look brings the broker up to a state.
func (b *Broker) look(snap *state.Snap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync(snap)
	b.unblock(snap)
}

// sync makes the broker know exactly the evaluations that the state says are not over: by those that were written since
// it looked last, or by all, where that is not known.
func (b *Broker) sync(snap *state.Snap) {
	written, known := snap.EvalNews(&b.news.evals)
	if !known {
		all := slices.Collect(maps.Keys(b.evals))
		for e := range snap.OpenEvals(nil) {
			all = append(all, e.ID)
		}
		written = slices.Values(all)
	}
	for id := range written {
		b.learn(snap, id)
	}
	for id := range b.settled { // perhaps nothing was written about it
		b.learn(snap, id)
	}
}

// learn makes the broker know of one evaluation what the state says.
func (b *Broker) learn(snap *state.Snap, id ids.Eval) {
	if at, settled := b.settled[id]; settled {
		if snap.Index() < at {
			return // this state is older than what a worker committed
		}
		delete(b.settled, id)
	}
	e, it := snap.Eval(nil, id), b.evals[id]
	switch open := e != nil && !e.Terminal(); {
	case open && it == nil:
		b.add(e)
	case open && e.ModifyIndex > it.eval.ModifyIndex:
		it.eval = e
		if it.place != withAWork {
			b.remove(it)
			b.file(it)
		}
	case !open && it != nil && it.place != withAWork: // a worker brings it back
		b.remove(it)
		b.forget(it)
		b.promote(it.job)
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
		b.waiting++
		b.fresh = append(b.fresh, it)
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
// the scheduler is among the tables; whoever is woken in vain only looks once more. Where none of them changed, only
// those are looked at that were not yet.
func (b *Broker) unblock(snap *state.Snap) {
	fresh := b.fresh
	b.fresh = nil
	if b.waiting == 0 {
		return
	}
	since := b.news.allocs
	for _, it := range fresh {
		if it.place == inBlocked {
			since = min(since, it.seen)
		}
	}
	b.scan(snap, since)
	nodes, storage := snap.TableIndex(state.Nodes), uint64(0)
	for _, t := range storageTables {
		storage = max(storage, snap.TableIndex(t))
	}
	last := max(nodes, storage, b.news.ended, b.news.ofJobs)
	if last <= b.news.inputs {
		for _, it := range fresh {
			b.wake(it, nodes, storage)
		}
		return
	}
	b.news.inputs = last
	for _, it := range b.evals {
		b.wake(it, nodes, storage)
	}
}

// wake makes one ready if it is blocked and something changed for it: nodes and storage say when those did.
func (b *Broker) wake(it *item, nodes, storage uint64) {
	if it.place == inBlocked && (nodes > it.seen || it.storage && storage > it.seen || b.news.ended > it.seen ||
		b.news.jobs[it.job] > it.seen) {
		b.remove(it)
		b.promote(it.job)
		b.debug("a blocked evaluation is looked at again", it)
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
			b.news.ofJobs = max(b.news.ofJobs, a.ModifyIndex)
		}
	}
	b.news.allocs = max(b.news.allocs, now)
}

// news is how far the state was looked at, and what was found.
type news struct {
	evals  state.EvalCursor
	allocs uint64
	ended  uint64         // the last change by which an alloc gave something back
	jobs   map[Job]uint64 // the last change of an alloc of a job that has evaluations here
	ofJobs uint64         // the last of those
	inputs uint64         // the last change for which all blocked ones were looked at
}

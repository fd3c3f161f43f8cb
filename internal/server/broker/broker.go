// Package broker owns the order of evaluations: which one a worker gets next, which wait for a time, and which wait for
// the state to change. It follows the state by itself: an evaluation that is committed is offered, one that is over is
// forgotten, and after a change of leaders everything is found again there. Of one job at most one evaluation is with a
// worker at a time. Packages of the server half may import it; only package worker takes from it.
package broker

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/eval"
	"berth/internal/server/state"
)

// Bounds of the pause before an evaluation is handed out again that a worker gave back.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = time.Minute
)

// Job names a job in its namespace.
type Job struct {
	Namespace ids.Namespace
	Job       ids.Job
}

// Broker orders evaluations. Its methods may be called from every goroutine.
type Broker struct {
	store *state.Store
	log   *slog.Logger

	mu      sync.Mutex
	evals   map[ids.Eval]*item
	ready   readyHeap
	timed   timedHeap
	busy    map[Job]ids.Eval // whose evaluation is with a worker
	jobs    map[Job][]*item
	settled map[ids.Eval]uint64
	waiting int     // blocked ones
	fresh   []*item // that have become so since unblock looked
	news    news
	changed lifecycle.Signal
}

// place is where an item is.
type place uint8

const (
	nowhere   place = iota // known, and waiting for another evaluation of its job
	inReady                // in Broker.ready
	inTimed                // in Broker.timed
	withAWork              // handed out
	inBlocked              // waits for a change of the state
)

// item is one evaluation that is not over.
type item struct {
	eval  *eval.Eval
	job   Job
	place place
	slot  int
	at    time.Time // of the timed
	tries int       // given back so often
	// seen is the index of the state at which a blocked evaluation was looked at last.
	seen uint64
	// storage: the job uses volumes, so that changes of storage matter to it.
	storage bool
}

// New returns a broker that knows nothing before Run.
func New(store *state.Store, log *slog.Logger) *Broker {
	b := &Broker{store: store, log: log}
	b.reset()
	return b
}

func (b *Broker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evals = map[ids.Eval]*item{}
	b.busy = map[Job]ids.Eval{}
	b.settled = map[ids.Eval]uint64{}
	b.jobs = map[Job][]*item{}
	b.ready = nil
	b.timed = nil
	b.waiting = 0
	b.fresh = nil
	b.news = news{jobs: map[Job]uint64{}}
}

// Run follows the state until ctx ends. It begins with what is there.
func (b *Broker) Run(ctx context.Context) error {
	b.reset()
	defer b.reset()
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("follow", func() error { return b.follow(gctx) })
	g.Go("clock", func() error { return b.clock(gctx) })
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Delivery is an evaluation in the hands of a worker, who ends it with Ack, Block or Nack.
type Delivery struct {
	Eval  *eval.Eval
	Tries int
}

// Dequeue waits for the next evaluation: the highest priority first, then the oldest.
func (b *Broker) Dequeue(ctx context.Context) (*Delivery, error) {
	for {
		changed := b.changed.C()
		if d := b.take(); d != nil {
			return d, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

func (b *Broker) take() *Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil
	}
	it := heap.Pop(&b.ready).(*item)
	it.place = withAWork
	b.busy[it.job] = it.eval.ID
	return &Delivery{Eval: it.eval, Tries: it.tries}
}

// Ack ends a delivery whose outcome was committed at index: what an older state says of the evaluation is void.
func (b *Broker) Ack(id ids.Eval, index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.evals[id]
	if it == nil || it.place != withAWork {
		return
	}
	b.forget(it)
	b.free(it)
	snap := b.store.Snapshot()
	if snap.Index() < index {
		b.settled[id] = index
		return
	}
	// The state may show it still: an evaluation that goes on being blocked was written as such.
	if e := snap.Eval(nil, id); e != nil && !e.Terminal() {
		b.add(e)
		b.unblock(snap)
	}
}

// forget drops an item that is in no heap.
func (b *Broker) forget(it *item) {
	delete(b.evals, it.eval.ID)
	rest := slices.DeleteFunc(b.jobs[it.job], func(o *item) bool { return o == it })
	if b.jobs[it.job] = rest; len(rest) == 0 {
		delete(b.jobs, it.job)
		delete(b.news.jobs, it.job)
	}
}

// Block ends a delivery of a blocked evaluation that still cannot go on, looked at in the state of an index.
func (b *Broker) Block(id ids.Eval, seen uint64, storage bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.evals[id]
	if it == nil || it.place != withAWork {
		return
	}
	it.place = inBlocked
	it.seen = seen
	it.storage = storage
	it.tries = 0
	b.waiting++
	b.fresh = append(b.fresh, it)
	b.free(it)
	snap := b.store.Snapshot()
	b.learn(snap, id) // it may be over: that was heard while a worker had it
	b.unblock(snap)   // what changed in between was looked at before this one was here
}

// Nack gives a delivery back. It is handed out again after a pause that doubles.
func (b *Broker) Nack(id ids.Eval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.evals[id]
	if it == nil || it.place != withAWork {
		return
	}
	pause := firstPause
	for range min(it.tries, 16) {
		pause = min(2*pause, lastPause)
	}
	it.tries++
	b.delay(it, time.Now().Add(pause)) // before the job is free, or it would be the job's next itself
	b.free(it)
	b.learn(b.store.Snapshot(), id) // it may be over: that was heard while a worker had it
}

// free lets the next evaluation of the job come.
func (b *Broker) free(it *item) {
	if b.busy[it.job] == it.eval.ID {
		delete(b.busy, it.job)
	}
	b.promote(it.job)
	b.changed.Notify()
}

// promote makes the first waiting evaluation of a job ready, unless one is with a worker or ready already.
func (b *Broker) promote(job Job) {
	if _, busy := b.busy[job]; busy {
		return
	}
	var best *item
	for _, it := range b.jobs[job] {
		if it.place == inReady {
			return
		}
		if it.place == nowhere && (best == nil || before(it, best)) {
			best = it
		}
	}
	if best != nil {
		best.place = inReady
		heap.Push(&b.ready, best)
		b.changed.Notify()
	}
}

func (b *Broker) delay(it *item, until time.Time) {
	it.place, it.at = inTimed, until
	heap.Push(&b.timed, it)
	b.changed.Notify()
}

// remove takes an item out of its heap.
func (b *Broker) remove(it *item) {
	switch it.place {
	case inReady:
		heap.Remove(&b.ready, it.slot)
	case inTimed:
		heap.Remove(&b.timed, it.slot)
	case inBlocked:
		b.waiting--
	}
	it.place = nowhere
}

// clock hands over what waited for a time. One timer serves all.
func (b *Broker) clock(ctx context.Context) error {
	for {
		changed := b.changed.C()
		wait := b.due(time.Now())
		var timer *time.Timer
		var fire <-chan time.Time
		if wait >= 0 {
			timer = time.NewTimer(wait)
			fire = timer.C
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-fire:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// due releases what is due and returns how long the next one waits; below zero: there is none.
func (b *Broker) due(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.timed) > 0 {
		it := b.timed[0]
		if it.at.After(now) {
			return it.at.Sub(now)
		}
		heap.Pop(&b.timed)
		it.place = nowhere
		b.promote(it.job)
	}
	return -1
}

// Stats counts evaluations by where they are.
type Stats struct{ Ready, Waiting, Delayed, Working, Blocked int }

// Stats counts.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s Stats
	for _, it := range b.evals {
		switch it.place {
		case inReady:
			s.Ready++
		case inTimed:
			s.Delayed++
		case withAWork:
			s.Working++
		case inBlocked:
			s.Blocked++
		default:
			s.Waiting++
		}
	}
	return s
}

func (b *Broker) debug(text string, it *item) {
	b.log.Debug(text, logkey.Eval, it.eval.ID, logkey.Job, it.job.Job, logkey.Namespace, it.job.Namespace)
}

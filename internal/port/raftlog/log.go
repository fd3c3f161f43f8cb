package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/raftlog/proposals"
)

// Leadership says whether this server leads. Term grows with each time it began to.
type Leadership struct {
	Leading bool
	Term    uint64
}

// Log is the replicated log. Its methods may be called from every goroutine; those that need it to run answer
// Unavailable before and after.
type Log struct {
	cfg      Config
	machine  *machine
	counters Counters

	mu      sync.Mutex
	raft    *raft.Raft        // nil unless it runs
	queue   *proposals.Queue  // of what is proposed; nil unless it runs
	store   *guard            // nil unless it runs
	snaps   *files.Snapshots  // nil unless it runs
	wound   *files.Wound      // nil unless it waits for other servers to mend it
	leads   bool              // so says Raft
	paused  bool              // by Pause
	term    Leadership        // guarded by mu
	changed *lifecycle.Signal // of term
	heard   lifecycle.Signal  // of contact
	contact map[string]Contact
	since   time.Time // of which it leads, or follows
}

// New returns a log that does nothing before Run.
func New(cfg Config, sm StateMachine) *Log {
	l := &Log{cfg: cfg.withDefaults(), changed: &lifecycle.Signal{}}
	l.machine = &machine{sm: sm, dir: l.cfg.Dir, log: l.cfg.Log, damage: newDamage()}
	return l
}

// Run opens the log, bootstraps it if it is new, drives the state machine until ctx ends and closes everything. A write
// to disk that failed in a way that can't be repaired ends it with that error, as does a damaged entry.
func (l *Log) Run(ctx context.Context) error {
	if l.cfg.Network != nil {
		trans := overStreams(ctx, l.cfg.ID, l.cfg.Network, l.cfg.Log)
		defer func() { _ = trans.Close() }() // nothing is sent any more
		l.cfg.Transport = trans
	}
	found, err := l.check(ctx)
	if err == nil && ctx.Err() == nil {
		err = l.dropEnd(found)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	failed := make(chan error, 1)
	store, err := l.guarded(found, failed)
	if err != nil {
		return err
	}
	defer store.close()
	notify := make(chan bool, 16)
	snaps, err := l.snapshots(store)
	if err != nil {
		return err
	}
	g, gctx := lifecycle.NewGroup(ctx)
	r, trans, err := l.open(gctx, g, store, snaps, notify)
	if err != nil {
		g.Stop()
		return errors.Join(err, g.Wait())
	}
	waiters, _ := lifecycle.NewGroup(ctx)
	l.set(r, l.proposals(r, waiters), store, snaps)
	l.observe(gctx, g, r)
	l.contacts(gctx, g, r)
	g.Go("leadership", func() error { return l.follow(gctx, notify) })
	short := shortener{log: l, snaps: snaps}
	g.Go("snapshot", func() error { short.run(gctx); return nil })
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-l.machine.damage.found:
		l.cfg.Log.Error(unusable(failure)+"; this server stops", "error", failure)
	case failure = <-failed:
		l.cfg.Log.Error("the log can't be written any more; this server stops", "error", failure)
	}
	l.unset()
	store.stop()
	_ = waiters.Wait() // its children return nil
	shutdown := r.Shutdown().Error()
	g.Stop()
	_ = g.Wait() // follow returns nil
	if c, ok := trans.(raft.WithClose); ok {
		_ = c.Close() // nothing is sent any more
	}
	return errors.Join(failure, shutdown)
}

// guarded opens the store, of which is known what was found in it.
func (l *Log) guarded(found files.Found, failed chan<- error) (*guard, error) {
	store, err := openGuard(l.cfg, &l.counters, failed, l.machine.damage)
	if err != nil {
		return nil, err
	}
	l.opened(store, found)
	store.votesAt.Store(found.Overruled)
	if err := l.dropOvertaken(store, found); err != nil {
		store.close()
		return nil, err
	}
	return store, nil
}

// snapshots opens those of the log. What they hold the store has, too.
func (l *Log) snapshots(store *guard) (*files.Snapshots, error) {
	snaps, err := files.OpenSnapshots(l.cfg.Dir, files.NewLogger(l.cfg.Log))
	if err != nil {
		return nil, files.Classify(err, "open snapshots", l.cfg.Dir)
	}
	snaps.Wrote = store.reached
	return snaps, nil
}

// open starts Raft over the opened store.
func (l *Log) open(ctx context.Context, g *lifecycle.Group, store *guard, snaps *files.Snapshots,
	notify chan<- bool) (*raft.Raft, Transport, error) {
	trans := l.cfg.Transport
	lone := trans == nil
	var c *checked
	if lone {
		_, trans = raft.NewInmemTransport(raft.ServerAddress(l.cfg.ID))
	} else {
		c, trans = newChecked(trans, l.cfg.Log, store, snaps)
		g.Go("arrivals", func() error { c.run(ctx); return nil })
	}
	rc := l.raftConfig(lone, notify)
	rc.Logger = files.NewLogger(l.cfg.Log)
	var first []raft.Server
	if lone {
		first = []raft.Server{{ID: rc.LocalID, Address: trans.LocalAddr()}}
	}
	for _, v := range l.cfg.Voters {
		first = append(first, raft.Server{ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Address)})
	}
	if len(first) > 0 && store.silence() == nil {
		if err := l.bootstrap(store, snaps, first); err != nil {
			return nil, nil, files.Classify(err, "bootstrap log", l.cfg.Dir)
		}
	}
	r, err := raft.NewRaft(rc, l.machine, store, store, snaps, trans)
	if err != nil {
		return nil, nil, files.Classify(err, "start log", l.cfg.Dir)
	}
	if c != nil && l.alone(r) {
		g.Go("stand", func() error { c.stand(ctx); return nil })
	}
	return r, trans, nil
}

func (l *Log) raftConfig(lone bool, notify chan<- bool) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(l.cfg.ID)
	rc.MaxAppendEntries = maxAppend
	rc.BatchApplyCh = true
	rc.NotifyCh = notify
	rc.HeartbeatTimeout, rc.ElectionTimeout = silence, silence
	rc.ShutdownOnRemove = false // who was removed says so, and ends by itself
	rc.SnapshotThreshold, rc.TrailingLogs = l.cfg.SnapshotThreshold, l.cfg.TrailingLogs
	rc.SnapshotInterval = l.cfg.interval
	if lone {
		rc.HeartbeatTimeout = loneTimeout
		rc.ElectionTimeout = loneTimeout
		rc.LeaderLeaseTimeout = loneTimeout
		rc.CommitTimeout = loneTimeout / 10
	}
	return rc
}

// follow turns Raft's notices into the level that Leadership returns.
func (l *Log) follow(ctx context.Context, notify <-chan bool) error {
	for {
		select {
		case <-ctx.Done():
			l.lead(false)
			return nil
		case leading := <-notify:
			l.lead(leading)
		}
	}
}

func (l *Log) lead(leading bool) {
	l.mu.Lock()
	if leading {
		l.term.Term++
	}
	l.leads = leading
	l.term.Leading = leading && !l.paused
	l.mu.Unlock()
	l.changed.Notify()
}

func (l *Log) set(r *raft.Raft, queue *proposals.Queue, store *guard, snaps *files.Snapshots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snaps = snaps
	l.raft = r
	l.queue = queue
	l.store = store
	l.changed.Notify() // who leads is known from here on, or no more
}

func (l *Log) proposals(r *raft.Raft, waiters *lifecycle.Group) *proposals.Queue {
	return &proposals.Queue{Waiters: waiters, Raft: r, Refused: l.closing("propose")}
}

func (l *Log) unset() { l.set(nil, nil, nil, nil) }

func (l *Log) running() (*raft.Raft, *proposals.Queue, *guard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raft == nil {
		return nil, nil, nil, fault.New(fault.Unavailable, "use log", l.cfg.Dir, "it is not open")
	}
	return l.raft, l.queue, l.store, nil
}

// ID is this server's.
func (l *Log) ID() string { return l.cfg.ID }

// Leadership returns whether this server leads and a channel that is closed when that changes.
func (l *Log) Leadership() (Leadership, <-chan struct{}) {
	changed := l.changed.C()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, changed
}

// Barrier waits until everything that was committed before is applied here.
func (l *Log) Barrier(ctx context.Context) error {
	return l.wait(ctx, "wait for log", func(r *raft.Raft) raft.Future { return r.Barrier(0) })
}

// Snapshot writes the state to a snapshot now. Nothing new to write is no error.
func (l *Log) Snapshot(ctx context.Context) error {
	err := l.wait(ctx, "write snapshot", func(r *raft.Raft) raft.Future { return r.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

func (l *Log) wait(ctx context.Context, op string, ask func(*raft.Raft) raft.Future) error {
	r, queue, store, err := l.running()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	if !queue.Waiters.Go(op, func() error { ended <- ask(r).Error(); return nil }) {
		return l.closing(op)
	}
	select {
	case err := <-ended:
		if err == nil {
			return nil
		}
		return fault.Note(l.failed(err, store), op, "")
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.Timeout, op, l.cfg.Dir)
	}
}

// Available says why new work would be refused here for want of room; nil: it would be taken.
func (l *Log) Available() error {
	_, _, store, err := l.running()
	if err != nil {
		return err
	}
	return store.available()
}

// LastIndex is the index of the last entry on disk here; 0 while the log does not run.
func (l *Log) LastIndex() uint64 {
	if r, _, _, err := l.running(); err == nil {
		return r.LastIndex()
	}
	return 0
}

// Stats describes the log for people.
func (l *Log) Stats() map[string]string {
	r, _, _, err := l.running()
	if err != nil {
		return map[string]string{"state": "closed"}
	}
	out := r.Stats()
	for k, v := range l.counters.Read().stats() {
		out[k] = v
	}
	return out
}

// Counters tells what was written so far, for benchmarks.
func (l *Log) Counters() *Counters { return &l.counters }

func (c Config) files() files.Options {
	return files.Options{Dir: c.Dir, SegmentSize: c.SegmentSize, Log: c.Log}
}

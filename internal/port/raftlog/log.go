package raftlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/raftlog/proposals"
)

// Transport carries Raft between servers.
type Transport = raft.Transport

// Voter is a server that counts for a majority.
type Voter struct {
	ID, Address string
}

// Config says where the log lives and who keeps it. Zero numbers take the defaults.
type Config struct {
	Dir string // directory of the log and its snapshots; made if missing
	ID  string // of this server
	Log *slog.Logger
	// Network connects the servers; nil: one server alone, or those that Transport connects.
	Network Network
	// Transport is what connects them instead.
	Transport Transport
	// Voters are the first members of a cluster that is begun, the same on each of them; none: the log has its members,
	// or is given them by a leader. Never name them to a server that was a member and has lost its log.
	Voters []Voter
	// Peers are the other servers as they are known now, asked for what this one's log has lost; nil: there are none.
	Peers func() []Peer
	// SegmentSize of the write-ahead log, in bytes, allocated in advance.
	SegmentSize int
	// Reserve is how much of the disk must stay free for work that only releases; with less, new work is refused.
	Reserve uint64
	// SnapshotThreshold is after how many entries the state is written to a snapshot; TrailingLogs how many of those
	// are kept in the log all the same.
	SnapshotThreshold, TrailingLogs uint64
	// SnapshotBytes and SnapshotAge have the state written as soon as the entries since the last snapshot hold so many
	// bytes, or the first of them is so old: what a start has to apply is bounded by its size and, of a quiet server,
	// by its age.
	SnapshotBytes uint64
	SnapshotAge   time.Duration
	// interval is how often Raft looks whether a snapshot is due; 0: 30 s.
	interval time.Duration
}

// Defaults of Config.
const (
	DefaultSegmentSize       = 16 << 20
	DefaultReserve           = 64 << 20
	DefaultSnapshotThreshold = 8192
	DefaultTrailingLogs      = 10240
	DefaultSnapshotBytes     = 8 << 20
	DefaultSnapshotAge       = 10 * time.Minute
	defaultInterval          = 30 * time.Second
)

// silence is how long a follower hears nothing of its leader, at least, before it asks to be voted for, and a candidate
// waits before it asks again; up to twice as long, by chance. When the first to ask knows less than the other, which
// still believes in the leader, both pass: a leader that dies is followed within 3 s then, too.
const silence = 700 * time.Millisecond

// The time-outs of a lone voter: it needs nobody's answer, so waiting longer for one only delays the start.
const (
	loneTimeout  = 50 * time.Millisecond
	maxAppend    = 512
	closeTimeout = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.SegmentSize <= 0 {
		c.SegmentSize = DefaultSegmentSize
	}
	if c.Peers == nil {
		c.Peers = func() []Peer { return nil }
	}
	if c.Reserve == 0 {
		c.Reserve = DefaultReserve
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = DefaultSnapshotThreshold
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = DefaultTrailingLogs
	}
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, DefaultSnapshotBytes)
	c.SnapshotAge = cmp.Or(c.SnapshotAge, DefaultSnapshotAge)
	c.interval = cmp.Or(c.interval, defaultInterval)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

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

// Apply brings an entry into the log, waits until it is on disk with a majority and applied, and returns the state
// machine's result. Entries that are proposed at the same time share one write to disk. When ctx ends first the answer
// is Timeout: the entry may still be applied. With less than the reserve left on disk it is refused as Exhausted.
func (l *Log) Apply(ctx context.Context, data []byte) (any, uint64, error) {
	return l.apply(ctx, data, false)
}

// ApplyReleasing is Apply for entries that only release something: the reserve is there for them.
func (l *Log) ApplyReleasing(ctx context.Context, data []byte) (any, uint64, error) {
	return l.apply(ctx, data, true)
}

func (l *Log) apply(ctx context.Context, data []byte, releasing bool) (any, uint64, error) {
	_, queue, store, err := l.running()
	if err != nil {
		return nil, 0, err
	}
	if err := store.healthy(releasing); err != nil {
		if fault.Has(err, fault.Exhausted) {
			l.counters.full.Add(1)
		}
		return nil, 0, err
	}
	select {
	case e := <-queue.Add(data, ctx.Done()):
		return l.ended(e, store)
	case <-ctx.Done():
		return nil, 0, fault.Wrap(ctx.Err(), fault.Timeout, "propose", "entry; whether it is applied is not known")
	}
}

func (l *Log) ended(e proposals.Result, store *guard) (any, uint64, error) {
	if e.Refused != nil {
		return nil, 0, e.Refused
	}
	if err := e.Future.Error(); err != nil {
		return nil, 0, l.failed(err, store)
	}
	if err, failed := e.Future.Response().(error); failed {
		return nil, e.Future.Index(), err
	}
	return e.Future.Response(), e.Future.Index(), nil
}

func (l *Log) proposals(r *raft.Raft, waiters *lifecycle.Group) *proposals.Queue {
	return &proposals.Queue{
		Waiters: waiters,
		Apply:   func(data []byte) raft.ApplyFuture { return r.Apply(data, 0) },
		Refused: l.closing("propose"),
	}
}

func (l *Log) closing(op string) error {
	return fault.New(fault.Unavailable, op, l.cfg.Dir, "it is being closed")
}

// failed gives Raft's errors their kinds.
func (l *Log) failed(err error, store *guard) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrRaftShutdown),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		if sick := store.healthy(true); sick != nil {
			return sick
		}
		return fault.WithHint(fault.Wrap(err, fault.Unavailable, "propose", "entry"),
			"the entry was not written; try again, when another server leads")
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return fault.Wrap(err, fault.Timeout, "propose", "entry; whether it is applied is not known")
	}
	return files.Classify(err, "write log", l.cfg.Dir)
}

// IsDeposed tells whether something failed because this server leads no more. Callers may hear of that by such an error
// before Leadership says so.
func IsDeposed(err error) bool {
	return errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrNotLeader)
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

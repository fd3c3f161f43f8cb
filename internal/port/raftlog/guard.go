package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/raftlog/recent"
)

// guard stands between Raft and its disk. A log write that failed is not tried again: after a failed fsync the kernel
// may have dropped the pages, and a second fsync that succeeds would prove nothing. Entries for which there is no room
// are refused before that, and come again: a leader steps down with them, and sends them again to one that follows. A
// stable write (term, vote) that found the disk full waits for room, because Raft ends the whole process when such a
// write fails.
type guard struct {
	recent.Log
	files.Space
	dir      string
	log      *slog.Logger
	counters *Counters
	failed   chan<- error
	damage   *damage
	votes    *files.Votes // nil on a lone voter, who needs none
	voting   sync.Mutex   // held while the vote is written: heartbeats come beside all else, and may begin a term
	notes    notes
	next     *files.NextSegment
	stopped  chan struct{}
	stopOnce sync.Once
	sick     atomic.Pointer[error] // why nothing more is written
	starved  atomic.Pointer[error] // why a stable write waits
	votesAt  atomic.Uint64         // it votes once it has this entry of the others; 0: it may
}

func openGuard(cfg Config, counters *Counters, failed chan<- error, d *damage) (*guard, error) {
	if err := files.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	g := &guard{
		dir:      cfg.Dir,
		Space:    files.Space{Reserve: cfg.Reserve, Segment: uint64(cfg.SegmentSize)},
		log:      cfg.Log,
		counters: counters,
		failed:   failed,
		damage:   d,
		stopped:  make(chan struct{}),
	}
	g.next = files.AwaitNextSegment(g.stopped)
	// A new log needs room for its first segment, and as much again as it keeps back: with less it would take no work
	// from the first moment on. One that is there must open on a full disk too, so that what is held can be released.
	if _, err := os.Stat(files.WALDir(cfg.Dir)); errors.Is(err, fs.ErrNotExist) {
		hint := fmt.Sprintf("free some there, or give data_dir a larger disk; a new log takes %d MiB for its first "+
			"segment and leaves %d MiB free, so that jobs can be stopped and volumes released when the disk is full; "+
			"nothing was begun", cfg.SegmentSize>>20, cfg.Reserve>>20)
		if err := files.Enough(g.dir, uint64(cfg.SegmentSize)+cfg.Reserve, hint); err != nil {
			return nil, err
		}
	}
	options := cfg.files()
	options.Made, options.Next = g.notes.made.Store, g.next
	w, err := files.OpenWAL(options)
	if err != nil {
		return nil, err
	}
	g.WAL = w
	if err := g.beginAnew(); err != nil {
		return nil, errors.Join(files.Classify(err, "write log", cfg.Dir), w.Close())
	}
	if cfg.Transport != nil {
		g.votes = &files.Votes{Dir: cfg.Dir}
		if err := g.votes.Agree(w, cfg.Log); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		g.setAside()
	}
	return g, nil
}

// beginAnew notes of a log that was opened which segment may have entries that were acknowledged.
func (g *guard) beginAnew() error {
	last, err := g.LastIndex()
	if err != nil {
		return err
	}
	g.notes.begun = 1
	if base := files.TailOf(g.dir); last >= base {
		g.notes.begun = max(base, 1)
	}
	return g.WAL.SetUint64(files.BegunKey, g.notes.begun)
}

// available refuses when less than the reserve is left.
func (g *guard) available() error {
	return files.Enough(g.dir, g.Reserve,
		"free some there; stopping jobs, releasing volumes and renewing certificates still work")
}

// setAside keeps what term and vote are written with on a full disk, where there is more than the reserve.
func (g *guard) setAside() {
	if g.votes != nil && g.available() == nil {
		g.Aside.Set(g.dir, g.log)
	}
}

// healthy tells whether an entry may be proposed.
func (g *guard) healthy(releasing bool) error {
	if p := g.sick.Load(); p != nil {
		return *p
	}
	if p := g.starved.Load(); p != nil {
		return *p
	}
	if releasing {
		return nil
	}
	err := g.available()
	switch full := err != nil; {
	case full && g.Full.CompareAndSwap(false, true):
		g.log.Error("new work is refused; what runs goes on, and releasing still works", logkey.Error, err)
	case !full && g.Full.CompareAndSwap(true, false):
		g.log.Info("there is room on the disk again: new work is taken", logkey.Path, g.dir)
	}
	return err
}

// StoreLog stores one entry.
func (g *guard) StoreLog(e *raft.Log) error { return g.StoreLogs([]*raft.Log{e}) }

// StoreLogs stores entries with one write and one fsync. Those that are proposed here get their checksum; those that
// come from another server have theirs, and one that does not match it is refused: the leader sends it again.
func (g *guard) StoreLogs(entries []*raft.Log) error {
	if p := g.sick.Load(); p != nil {
		return *p
	}
	if err := g.damage.known(); err != nil {
		return err
	}
	for _, e := range entries {
		files.Seal(e)
		if err := files.Sound(e); err != nil {
			return fault.Wrap(err, fault.Internal, "write log", g.dir)
		}
	}
	err := g.ready(entries[0].Index)
	unwritten := files.IsFull(err)
	if err == nil {
		err = g.Log.StoreLogs(entries)
		unwritten = files.IsUnwritten(err)
	}
	if err != nil {
		err = files.Classify(err, "write log", g.dir)
		if unwritten {
			g.refuse(err)
			return err
		}
		if g.sick.CompareAndSwap(nil, &err) {
			g.failed <- err
		}
		return err
	}
	last := entries[len(entries)-1].Index
	if err := errors.Join(g.begin(last), g.reached(last)); err != nil {
		return files.Classify(err, "write log", g.dir)
	}
	if g.Lacking.CompareAndSwap(true, false) {
		g.log.Info("there is room on the disk again: entries are stored", logkey.Path, g.dir)
	}
	g.counters.append(entries)
	if g.notes.unheld += len(entries); g.notes.unheld >= files.HeldEvery {
		g.hold()
	}
	return nil
}

// ready waits until the log can take an entry. Raft does not know of one that is there already: its note could not be
// written.
func (g *guard) ready(first uint64) error {
	if err := g.next.Wait(); err != nil {
		return err
	}
	last, err := g.LastIndex()
	if err != nil || last < first {
		return err
	}
	return g.DeleteRange(first, last)
}

// refuse says, once, that there is no room for entries.
func (g *guard) refuse(err error) {
	if g.Lacking.CompareAndSwap(false, true) {
		g.log.Error("there is no room for what the log is to store: this server neither leads nor follows until there "+
			"is, and comes back by itself", logkey.Path, g.dir, logkey.Error, err)
	}
}

// notes are what the log knows of itself beside its entries.
type notes struct {
	unheld int           // entries since it was noted how many are on disk
	made   atomic.Uint64 // the first entry of the last segment that was made
	begun  uint64        // the one that is noted under files.BegunKey
}

// begin notes, before an entry is acknowledged, which segment may have it.
func (g *guard) begin(last uint64) error {
	made := g.notes.made.Load()
	if made <= g.notes.begun || last < made {
		return nil
	}
	err := g.WAL.SetUint64(files.BegunKey, made)
	if err == nil { // else the entry comes again, and the note with it
		g.notes.begun = made
	}
	return err
}

// hold notes that everything that is in the log now is on disk. It may fail: then less is known of it.
func (g *guard) hold() {
	g.notes.unheld = 0
	last, err := g.LastIndex()
	if err == nil {
		err = g.WAL.SetUint64(files.HeldKey, last)
	}
	if err != nil {
		g.log.Warn("how far the log reaches could not be noted", logkey.Path, g.dir, logkey.Error, err)
	}
}

// DeleteRange drops entries. Whoever drops the last ones knows that they are not missed.
func (g *guard) DeleteRange(first, last uint64) error {
	if err := g.damage.known(); err != nil {
		return err
	}
	err := g.next.Wait()
	end, failed := g.LastIndex()
	if err = errors.Join(err, failed); err == nil && last >= end {
		// The library makes a segment then, and must not fail: it would go on with another log than the one on disk.
		if err = files.Enough(g.dir, g.Segment, "free some there"); err != nil {
			return err
		}
		g.next.Begin()
		defer g.next.End()
		if first > 0 {
			err = g.WAL.SetUint64(files.HeldKey, first-1)
		}
	}
	if err != nil {
		return files.Classify(err, "shorten log", g.dir)
	}
	return g.Log.DeleteRange(first, last)
}

// GetLog reads an entry. One that is damaged ends the server. The library, which would end the whole process if it
// could not apply an entry, gets one that says nothing in its place: nothing is applied, stored or dropped any more,
// and no server would take that entry, whose checksum no entry has.
func (g *guard) GetLog(index uint64, e *raft.Log) error {
	err := g.Log.GetLog(index, e)
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		return err
	case err != nil:
		err = files.Damaged(err, "read log", files.SegmentOf(filepath.Join(g.dir, "wal"), index), g.dir)
	default:
		err = files.Verified(g.dir, index, e)
	}
	if err == nil {
		return nil
	}
	g.damage.report(err)
	*e = files.Nothing(index)
	return nil
}

// Set stores a value of Raft's own.
func (g *guard) Set(key, val []byte) error {
	return g.stable(func() error { return g.votes.Follow(g.WAL, g.WAL.Set(key, val)) })
}

// SetUint64 stores a number of Raft's own.
func (g *guard) SetUint64(key []byte, val uint64) error {
	if err := g.silence(); err != nil && bytes.Equal(key, files.VoteTerm) {
		return err // the library gives no vote that it could not write
	}
	return g.stable(func() error { return g.votes.Follow(g.WAL, g.WAL.SetUint64(key, val)) })
}

// retryStable is the pause between tries of a stable write on a full disk.
const retryStable = 200 * time.Millisecond

// stable writes until it succeeds. When the log is being closed, or after a failure that room on the disk does not
// repair, it lets Raft go on without the write: from then on StoreLogs refuses everything, so that no entry can be
// built on a term or a vote that is not on disk.
func (g *guard) stable(write func() error) error {
	for {
		g.voting.Lock()
		err := write()
		g.voting.Unlock()
		if err == nil {
			g.starved.Store(nil)
			g.counters.stable.Add(1)
			g.setAside()
			return nil
		}
		err = files.Classify(err, "write term or vote to", g.dir)
		if !fault.Has(err, fault.Exhausted) {
			if g.sick.CompareAndSwap(nil, &err) {
				g.failed <- err
			}
			return nil
		}
		if g.votes != nil && g.Aside.Give(g.dir) {
			continue
		}
		if g.starved.Swap(&err) == nil {
			g.log.Error("waiting for room on the disk", "error", err)
		}
		select {
		case <-g.stopped:
			g.sick.CompareAndSwap(nil, &err)
			return nil
		case <-time.After(retryStable):
		}
	}
}

// stop ends the waiting of stable writes.
func (g *guard) stop() { g.stopOnce.Do(func() { close(g.stopped) }) }

func (g *guard) close() {
	g.stop()
	if g.sick.Load() == nil && g.starved.Load() == nil {
		g.hold()
	}
	if err := g.WAL.Close(); err != nil {
		g.log.Error("close the log", "error", err)
	}
}

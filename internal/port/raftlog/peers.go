package raftlog

import (
	"cmp"
	"context"
	"io"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// Peer is another server of the cluster, which is asked for what this one's log has lost. Log answers what a Peer is
// asked; whoever connects the servers carries it. An answer need not be trusted to be undamaged.
type Peer interface {
	// Name of the server, for people.
	Name() string
	// Entries answers as Log.Entries of that server does.
	Entries(ctx context.Context, from uint64) (Piece, error)
	// Snapshot answers as Log.OpenSnapshot of that server does.
	Snapshot(ctx context.Context) (*raft.SnapshotMeta, io.ReadCloser, error)
}

// Piece is some of what a server has of the log.
type Piece struct {
	Leading bool   // it leads, and did so as long as it read what is here
	Term    uint64 // that it has reached
	// First and Last are the entries between which it has all; 0: it has none.
	First, Last uint64
	// Entries begin with the one that was asked for, and follow one another. None: the server does not have that one.
	Entries []*raft.Log
	// Snapshot is up to which entry the server's newest snapshot reaches, and SnapshotTerm that entry's term.
	Snapshot, SnapshotTerm uint64
}

// pieceBytes bounds a Piece; it has one entry at least.
const pieceBytes = 1 << 20

// Entries tells another server what this one has of the log, from an entry on. It does so, too, while it waits for the
// others itself.
func (l *Log) Entries(_ context.Context, from uint64) (Piece, error) {
	l.mu.Lock()
	w, snaps := l.wound, l.snaps
	l.mu.Unlock()
	if w != nil {
		return left(w, from), nil
	}
	r, _, store, err := l.running()
	if err != nil {
		return Piece{}, err
	}
	leads := r.State() == raft.Leader
	p := Piece{Term: r.CurrentTerm()}
	if kept, err := snaps.List(); err == nil && len(kept) > 0 {
		p.Snapshot, p.SnapshotTerm = kept[0].Index, kept[0].Term
	}
	if p.First, err = store.FirstIndex(); err != nil {
		return Piece{}, files.Classify(err, "read log", l.cfg.Dir)
	}
	if p.Last, err = store.LastIndex(); err != nil {
		return Piece{}, files.Classify(err, "read log", l.cfg.Dir)
	}
	for i, n := from, 0; p.First > 0 && i >= p.First && i <= p.Last && n < pieceBytes; i++ {
		e := &raft.Log{}
		if err := store.GetLog(i, e); err != nil {
			return Piece{}, files.Classify(err, "read log", l.cfg.Dir)
		}
		p.Entries = append(p.Entries, e)
		n += len(e.Data)
	}
	// Nobody leads a term a second time: so it led, and only added to its log, in between.
	p.Leading = leads && r.State() == raft.Leader && r.CurrentTerm() == p.Term
	return p, l.machine.damage.known()
}

// OpenSnapshot opens this server's newest snapshot. Close it when done.
func (l *Log) OpenSnapshot(context.Context) (*raft.SnapshotMeta, io.ReadCloser, error) {
	l.mu.Lock()
	snaps := l.snaps
	l.mu.Unlock()
	if snaps == nil {
		return nil, nil, fault.New(fault.Unavailable, "read snapshot", l.cfg.Dir, "the log is not open")
	}
	kept, err := snaps.List()
	if err != nil {
		return nil, nil, files.Classify(err, "read snapshot", l.cfg.Dir)
	}
	if len(kept) == 0 {
		return nil, nil, fault.New(fault.NotFound, "read snapshot", l.cfg.Dir, "there is none")
	}
	meta, data, err := snaps.Open(kept[0].ID)
	return meta, data, files.Classify(err, "read snapshot", l.cfg.Dir)
}

// left is what a server that waits itself has of the log.
func left(w *files.Wound, from uint64) Piece {
	p := Piece{Term: w.Vote.Term, Snapshot: w.Snapshot}
	n := 0
	for _, part := range [][]*raft.Log{w.Head, w.Tail} {
		for _, e := range part {
			if e.Index == from+uint64(len(p.Entries)) && n < pieceBytes {
				p.Entries = append(p.Entries, e)
				n += len(e.Data)
			}
			p.Last = e.Index
			p.First = cmp.Or(p.First, e.Index)
		}
	}
	return p
}

package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"berth/internal/base/logkey"
	"berth/internal/port/raftlog/files"
)

// fetch gets what is missing from another server.
type fetch struct {
	cfg   Config
	peer  Peer
	wound *files.Wound
}

// at asks for entries, and refuses a piece that is not sound.
func (f *fetch) at(ctx context.Context, from uint64) (Piece, error) {
	piece, err := f.peer.Entries(ctx, from)
	if err != nil {
		return Piece{}, err
	}
	for i, e := range piece.Entries {
		err := files.Sound(e)
		if err == nil && e.Index != from+uint64(i) {
			err = fmt.Errorf("entry %d came in place of %d", e.Index, from+uint64(i))
		}
		if err != nil {
			f.cfg.Log.Error("a damaged entry came from another server; it is refused", logkey.Index, e.Index,
				"server", f.peer.Name(), logkey.Error, err)
			return Piece{}, err
		}
	}
	return piece, nil
}

// led is at of a server that still leads the term of have: its log has only grown since.
func (f *fetch) led(ctx context.Context, from uint64, have Piece) (Piece, error) {
	piece, err := f.at(ctx, from)
	if err == nil && (!piece.Leading || piece.Term != have.Term) {
		err = errors.New("it has ceased to lead")
	}
	return piece, err
}

// upTo gets the entries from one to another, of one history: each piece begins with the entry that ended the one
// before, in the same term, and so continues it.
func (f *fetch) upTo(ctx context.Context, from, to uint64) (out []*raft.Log, err error) {
	for from+uint64(len(out)) <= to {
		begin := from + max(uint64(len(out)), 1) - 1
		piece, err := f.at(ctx, begin)
		if err != nil {
			return nil, err
		}
		fresh := piece.Entries
		if len(out) > 0 && len(fresh) > 0 {
			if fresh[0].Term != out[len(out)-1].Term {
				return nil, fmt.Errorf("its entry %d was replaced meanwhile", begin)
			}
			fresh = fresh[1:]
		}
		if len(fresh) == 0 {
			return nil, fmt.Errorf("it does not have entry %d", from+uint64(len(out)))
		}
		out = append(out, fresh...)
	}
	return out[:to-from+1], nil
}

// between gets what is missing in the middle, from whoever has the entry behind it with the same term. nil: it does
// not.
func (f *fetch) between(ctx context.Context, have Piece) ([]*raft.Log, error) {
	w := f.wound
	if len(have.Entries) == 0 || have.Last <= w.To {
		return nil, nil
	}
	got, err := f.upTo(ctx, w.From, w.To+1)
	if err != nil || got[len(got)-1].Term != w.Tail[0].Term {
		return nil, err
	}
	got = append(append([]*raft.Log(nil), w.Head...), got[:len(got)-1]...)
	return append(got, w.Tail...), nil
}

// beneath takes a snapshot for what is missing, from whoever has one that ends with an entry that is left here. nil: it
// does not.
func (f *fetch) beneath(ctx context.Context, have Piece) ([]*raft.Log, error) {
	tail := f.wound.Tail
	if have.Snapshot < tail[0].Index || have.Snapshot > tail[len(tail)-1].Index ||
		tail[have.Snapshot-tail[0].Index].Term != have.SnapshotTerm {
		return nil, nil
	}
	meta, err := f.install(ctx, func(m *raft.SnapshotMeta) bool {
		return m.Index == have.Snapshot && m.Term == have.SnapshotTerm
	})
	if err != nil || meta == nil {
		return nil, err
	}
	return tail, nil
}

// leaders takes the leader's log up to the last entry that it had when it was first asked.
func (f *fetch) leaders(ctx context.Context, have Piece) ([]*raft.Log, error) {
	head, next, err := f.agreed(ctx, have)
	if err != nil {
		return nil, err
	}
	if next <= have.Last {
		begin, err := f.led(ctx, next, have)
		if err != nil {
			return nil, err
		}
		if len(begin.Entries) == 0 {
			meta, err := f.install(ctx, func(m *raft.SnapshotMeta) bool { return m.Index+1 >= next })
			if err != nil {
				return nil, err
			}
			if meta == nil {
				return nil, fmt.Errorf("it has neither entry %d nor a snapshot of it", next)
			}
			head, next = nil, meta.Index+1
			if last, err := f.led(ctx, meta.Index, have); err == nil && len(last.Entries) > 0 {
				head = last.Entries[:1]
			}
		}
	}
	if next > have.Last {
		return head, nil
	}
	got, err := f.upTo(ctx, next, have.Last)
	if err != nil {
		return nil, err
	}
	if _, err := f.led(ctx, have.Last, have); err != nil {
		return nil, err
	}
	return append(head, got...), nil
}

// reach puts before entries what the other server has from before them. Nothing of it is needed here; but a leader who
// supposes this server to be further behind than it is asks for entries further back, and does not find out how far it
// is if they are missing.
func (f *fetch) reach(ctx context.Context, entries []*raft.Log, have Piece) []*raft.Log {
	if len(entries) == 0 || have.First == 0 || have.First >= entries[0].Index {
		return entries
	}
	begin := entries[0]
	from := have.First
	if trailing := f.cfg.TrailingLogs; begin.Index > from+trailing {
		from = begin.Index - trailing
	}
	before, err := f.upTo(ctx, from, begin.Index)
	if err != nil || before[len(before)-1].Term != begin.Term {
		return entries // it has another history, or has dropped them
	}
	return append(before[:len(before)-1], entries...)
}

// agreed is how much of what is left before what is missing the leader has, too, and which entry follows it. What the
// leader has otherwise was never committed here. What its snapshot has it can't be asked about: that is taken instead.
func (f *fetch) agreed(ctx context.Context, have Piece) (head []*raft.Log, next uint64, err error) {
	w := f.wound
	head, next = w.Head, w.From
	for n := len(head); n > 0 && head[n-1].Index > w.Snapshot; n-- {
		mine := head[n-1]
		piece, err := f.led(ctx, mine.Index, have)
		switch {
		case err != nil:
			return nil, 0, err
		case len(piece.Entries) > 0 && piece.Entries[0].Term == mine.Term:
			return append([]*raft.Log(nil), head...), next, nil
		case len(piece.Entries) == 0 && piece.Last >= mine.Index:
			return nil, 1, nil
		}
		head, next = head[:n-1], mine.Index
	}
	return append([]*raft.Log(nil), head...), next, nil
}

// install makes another server's snapshot one of this server's, if it fits. nil: it does not.
func (f *fetch) install(ctx context.Context, fits func(*raft.SnapshotMeta) bool) (*raft.SnapshotMeta, error) {
	meta, data, err := f.peer.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = data.Close() }() // it was only read
	if !fits(meta) {
		return nil, nil
	}
	snaps, err := files.OpenSnapshots(f.cfg.Dir, files.NewLogger(f.cfg.Log))
	if err != nil {
		return nil, files.Classify(err, "open snapshots", f.cfg.Dir)
	}
	sink, err := snaps.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex,
		f.cfg.Transport)
	if err != nil {
		return nil, files.Classify(err, "write snapshot", f.cfg.Dir)
	}
	n, err := io.Copy(sink, data)
	if err == nil && n != meta.Size {
		err = fmt.Errorf("its snapshot has %d bytes, and %d came", meta.Size, n)
	}
	if err != nil {
		return nil, errors.Join(files.Classify(err, "write snapshot", f.cfg.Dir), sink.Cancel())
	}
	return meta, files.Classify(sink.Close(), "write snapshot", f.cfg.Dir)
}

package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// Wound is what is left of a damaged log, and what it lacks.
type Wound struct {
	Snapshot uint64   // up to which entry the newest whole snapshot reaches
	Vote     Vote     // by which the server acted last
	broken   []string // directories of snapshots that can't be read
	// Head are the sound entries before what is missing, which no snapshot of this server's replaces, or before the
	// end; Tail those behind it.
	Head, Tail []*raft.Log
	// From and To are the first and the last entry that are missing; From 0: none are; To 0: the end is lost, and
	// nobody here knows how far it reached.
	From, To uint64
}

// Sift reads everything in the directory of a log that can still be read.
func Sift(dir string) (*Wound, error) {
	c := dirCheck{dir: dir, wal: filepath.Join(dir, "wal")}
	w := &Wound{}
	if _, err := c.snapshots(); err != nil {
		return nil, err
	}
	w.Snapshot, w.broken = c.found.Snapshot, c.unread
	list, known := c.listed()
	kept, err := (&Votes{Dir: dir}).read()
	switch {
	case err == nil && (!known || kept.Term >= c.vote.Term):
		w.Vote = kept
	case known:
		w.Vote = c.vote
	default:
		return nil, noVote(filepath.Join(dir, VoteFile), err)
	}
	var sound []*raft.Log
	lost := !known // the end is
	for i, info := range list.Segments {
		got, whole := siftSegment(c.wal, info, c.held)
		sound = append(sound, got...)
		lost = lost || i == len(list.Segments)-1 && !whole
	}
	first := uint64(1)
	if len(list.Segments) > 0 {
		first = list.Segments[0].MinIndex
	}
	reaches := max(first-1, w.Snapshot)
	if n := len(sound); n > 0 {
		reaches = max(sound[n-1].Index, w.Snapshot)
	}
	if reaches < c.held {
		lost = true
	}
	w.arrange(sound, first, lost)
	return w, nil
}

// Covered reads what is left of a damaged log whose newest whole snapshot holds everything that is missing, so that a
// start can do without where no leader asks whether the last of that is the same; nil: it is needed, or nobody can
// know.
func Covered(dir string) *Wound {
	w, err := Sift(dir)
	if err != nil {
		return nil
	}
	if w.To > 0 && w.To <= w.Snapshot {
		w.Head, w.From = w.Tail, 0
	}
	if w.From > 0 || w.Snapshot == 0 {
		return nil
	}
	return w
}

// Entries are the first and the last entry before what is missing; 0: none.
func (w *Wound) Entries() (first, last uint64) {
	if n := len(w.Head); n > 0 {
		return w.Head[0].Index, w.Head[n-1].Index
	}
	return 0, 0
}

// noVote is the end of a server of several whose vote is lost. One that is restored from a backup has an older vote,
// and could give another one in the same term.
func noVote(path string, err error) error {
	return fault.WithHint(fault.Wrap(fmt.Errorf("neither the log's store nor this copy of it says any more which term "+
		"this server has reached, and for whom it has voted: %w", err), fault.Internal, "check log", path),
		"remove this server from the others' configuration, and let it join anew by another id")
}

// arrange finds what is missing. What lies below the last entry that the snapshot holds is not needed; that one is, as
// the leader may ask whether it is the same.
func (w *Wound) arrange(sound []*raft.Log, first uint64, lost bool) {
	next := min(first, w.Snapshot+1) // the entry that should come
	for i, e := range sound {
		switch {
		case e.Index == next:
		case e.Index <= w.Snapshot:
			w.Head = nil
		default:
			w.lacks(next)
			w.To, w.Tail = e.Index-1, sound[i:]
		}
		if w.From == 0 {
			w.Head = append(w.Head, e)
		}
		next = e.Index + 1
	}
	if lost {
		w.lacks(next)
		w.To, w.Tail = 0, nil
	}
}

// lacks notes that from an entry on something is missing, if nothing before it is.
func (w *Wound) lacks(index uint64) {
	if w.From > 0 {
		return
	}
	w.From = max(index, w.Snapshot)
	if index < w.From {
		w.Head = nil
	}
}

// listed is the list of segments, and whether it can be relied on.
func (c *dirCheck) listed() (types.PersistentState, bool) {
	meta := filepath.Join(c.wal, MetaFile)
	if kv.Check(meta, metadb.MetaBucket, metadb.StableBucket) != nil {
		return types.PersistentState{}, false
	}
	list, err := c.list(meta)
	if err == nil {
		err = kv.Read(meta, metadb.StableBucket, string(VoteTerm), number64(&c.vote.VoteTerm))
	}
	if err == nil {
		err = kv.Read(meta, metadb.StableBucket, string(voteCandidate), func(data []byte) error {
			c.vote.Candidate = append([]byte(nil), data...)
			return nil
		})
	}
	if err == nil {
		err = c.names(meta, list)
	}
	c.vote.Term = c.found.Term
	if err != nil {
		return types.PersistentState{}, false
	}
	return list, true
}

// siftSegment reads the sound entries of a segment; whole: nothing that may have been acknowledged is missing at its
// end.
func siftSegment(dir string, info types.SegmentInfo, held uint64) (entries []*raft.Log, whole bool) {
	sealed := !info.SealTime.IsZero()
	data, err := os.ReadFile(filepath.Join(dir, segment.FileName(info)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	end, last := 0, info.BaseIndex-1
	for at, ok := 0, true; ok; at, ok = resume(data, end, last) {
		var got []*raft.Log
		got, end = stretch(data, at, last)
		for _, e := range got {
			last = e.Index
			if e.Index >= info.MinIndex && (!sealed || e.Index <= info.MaxIndex) {
				entries = append(entries, e)
			}
		}
	}
	if sealed {
		return entries, last >= info.MaxIndex
	}
	made := len(data) >= int(info.SizeLimit) || info.BaseIndex == 1 && held == 0
	return entries, made && cutOff(data, end)
}

// stretch reads what was stored from the byte at start on, one write after the other, until one is not whole or its
// entries are not sound and the next ones; the first may have any index above last.
func stretch(data []byte, start int, last uint64) (entries []*raft.Log, end int) {
	w := walk{data: data}
	for end = start; ; {
		now, next, ok := w.framed(end)
		if !ok {
			return entries, end
		}
		batch := make([]*raft.Log, 0, len(now.offsets))
		for _, at := range now.offsets {
			e := &raft.Log{}
			size := binary.LittleEndian.Uint32(data[at+4:])
			err := (&wal.BinaryCodec{}).Decode(data[at+frameHead:][:size], e)
			anew := start > 0 && len(entries)+len(batch) == 0 && e.Index > last
			if err != nil || Sound(e) != nil || e.Index != last+1 && !anew {
				return entries, end
			}
			e.Data, e.Extensions = append([]byte(nil), e.Data...), append([]byte(nil), e.Extensions...)
			last = e.Index
			batch = append(batch, e)
		}
		entries, end = append(entries, batch...), next
	}
}

// resume finds where, beyond the byte at from, sound entries above last are stored again.
func resume(data []byte, from int, last uint64) (at int, ok bool) {
	w := walk{data: data}
	for at := max(from, SegmentHead) + frameHead; at+frameHead <= len(data); at += frameHead {
		if kind, _, ok := w.frame(at - frameHead); !ok || kind != segment.FrameCommit {
			continue
		}
		if kind, _, ok := w.frame(at); !ok || kind != segment.FrameEntry {
			continue
		}
		if got, _ := stretch(data, at, last); len(got) > 0 {
			return at, true
		}
	}
	return 0, false
}

const sector = 512 // bytes that a disk writes whole or not at all

// cutOff tells whether what lies beyond the last whole write, if anything does, can be one that was cut off: then it
// was never acknowledged. The room of a segment is zeros before it is written, and a disk writes whole sectors. So a
// write that was cut off has sectors of which all is zero, or ends in them; one of which every sector has arrived, and
// which does not match its checksum, was damaged later.
func cutOff(data []byte, end int) bool {
	w := walk{data: data, end: end}
	if w.rest() == 0 {
		return true
	}
	for at := max(end, SegmentHead); at+frameHead <= len(data); {
		if binary.LittleEndian.Uint64(data[at:]) == 0 {
			return true
		}
		kind, size, ok := w.frame(at)
		if !ok {
			return false
		}
		if kind == segment.FrameCommit {
			return hasZeroSector(data[:at+frameHead], end)
		}
		at += (frameHead + size + frameHead - 1) &^ (frameHead - 1)
	}
	return false
}

// hasZeroSector tells whether some sector has nothing but zeros from the byte at start on.
func hasZeroSector(data []byte, start int) bool {
	for at := start; at < len(data); {
		next := min((at/sector+1)*sector, len(data))
		zero := true
		for _, b := range data[at:next] {
			zero = zero && b == 0
		}
		if zero {
			return true
		}
		at = next
	}
	return false
}

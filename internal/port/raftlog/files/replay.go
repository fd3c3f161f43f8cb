package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// Replayed is what a log is brought to.
type Replayed interface {
	Restore(r io.Reader) error
	Apply(index uint64, data []byte)
}

// Replay brings what lies in the directory of a log that nobody uses to a state machine, as a start does: the newest
// whole snapshot, and the entries since, in order. It returns the index of the last of them, and changes nothing in the
// directory. What Check refuses cannot be replayed, unless it is Covered.
func Replay(dir string, sm Replayed) (last uint64, err error) {
	c := dirCheck{dir: dir, wal: filepath.Join(dir, "wal")}
	if last, err = c.restore(sm); err != nil {
		return 0, err
	}
	meta := filepath.Join(c.wal, MetaFile)
	if _, err := os.Stat(meta); errors.Is(err, fs.ErrNotExist) {
		return last, nil // nothing was ever appended
	}
	list, err := c.list(meta)
	if err != nil {
		return last, c.bad(meta, err)
	}
	for _, info := range list.Segments {
		r, err := readSegment(c.wal, info, c.held)
		if err == nil {
			last, err = r.replay(info, last, sm)
		}
		if err == nil {
			continue
		}
		if w := Covered(dir); w != nil { // which a start does without
			return w.replay(last, sm), nil
		}
		return last, c.bad(filepath.Join(c.wal, segment.FileName(info)), err)
	}
	return last, nil
}

// replay brings the commands that are left after the entry last to the state machine.
func (w *Wound) replay(last uint64, sm Replayed) uint64 {
	for _, e := range w.Head {
		if e.Index > last && e.Type == raft.LogCommand {
			sm.Apply(e.Index, e.Data)
		}
		last = max(last, e.Index)
	}
	return last
}

// restore hands the newest whole snapshot to the state machine, and tells up to which entry it reaches.
func (c *dirCheck) restore(sm Replayed) (uint64, error) {
	list, err := filepath.Glob(filepath.Join(c.dir, "snapshots", "*"))
	if err != nil {
		return 0, c.bad(c.dir, err)
	}
	var newest uint64
	var dir string
	for _, path := range list {
		if strings.HasSuffix(path, unfinished) {
			continue
		}
		if index, _, err := readSnapshot(path); err == nil && index > newest { // Check names those that are damaged
			newest, dir = index, path
		}
	}
	if newest == 0 {
		return 0, nil
	}
	path := filepath.Join(dir, "state.bin")
	f, err := os.Open(path)
	if err != nil {
		return 0, Classify(err, "replay", path)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := sm.Restore(f); err != nil {
		return 0, c.bad(path, err)
	}
	return newest, nil
}

// replay brings the commands of a segment that come after the entry last to the state machine.
func (r read) replay(info types.SegmentInfo, last uint64, sm Replayed) (uint64, error) {
	for i, at := range r.offsets {
		index := info.BaseIndex + uint64(i)
		if index <= last || index < info.MinIndex || !info.SealTime.IsZero() && index > info.MaxIndex {
			continue
		}
		size := binary.LittleEndian.Uint32(r.data[at+4:])
		var e raft.Log
		if err := (&wal.BinaryCodec{}).Decode(r.data[at+frameHead:][:size], &e); err != nil {
			return last, fmt.Errorf("entry %d is damaged: %w", index, err)
		}
		if e.Type == raft.LogCommand {
			sm.Apply(e.Index, slices.Clone(e.Data))
		}
		last = index
	}
	return last, nil
}

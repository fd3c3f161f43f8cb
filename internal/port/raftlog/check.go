package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// heldKey is where the log notes an entry up to which all were on disk: at its start, at its end, and in between every
// heldEvery entries. If one up to it is missing, it was lost, and not cut off as it was written.
var heldKey = []byte("BerthHeld")

const heldEvery = 256

// Found is what lies in the directory of a log, and can be relied on.
type Found struct {
	First, Last uint64 // entries; 0: none
	Term        uint64
	Snapshot    uint64 // up to which entry the newest whole snapshot reaches; 0: there is none
	// Dropped is how many bytes at the end are of a write that was cut off, and so was never acknowledged.
	Dropped int
	// Warnings name what is damaged and not needed, because something older replaces it.
	Warnings []error
}

// Check reads everything in the directory of a log that nobody uses, and refuses, by the path of the file, what is
// damaged and cannot be done without. It changes nothing.
func Check(dir string) (Found, error) {
	c := dirCheck{dir: dir, wal: filepath.Join(dir, "wal")}
	err := c.all()
	return c.found, err
}

// Begun tells whether there is, or was, a log in a directory.
func Begun(dir string) bool {
	for _, sub := range []string{"wal", "snapshots"} {
		if list, err := os.ReadDir(filepath.Join(dir, sub)); err == nil && len(list) > 0 {
			return true
		}
	}
	return false
}

// dirCheck is one reading of a log's directory.
type dirCheck struct {
	dir, wal string
	found    Found
	held     uint64
}

func (c *dirCheck) all() error {
	broken, err := c.snapshots()
	if err != nil {
		return err
	}
	begun, err := c.segments()
	if err != nil {
		return err
	}
	f := &c.found
	switch {
	case !begun && (f.Snapshot > 0 || len(broken) > 0):
		return c.bad(c.wal,
			errors.New("it is missing or empty, though there is a snapshot of it: the entries since are lost"))
	case f.First > f.Snapshot+1 && len(broken) > 0:
		return broken[0]
	case f.First > f.Snapshot+1:
		return c.bad(filepath.Join(c.dir, "snapshots"), fmt.Errorf(
			"a snapshot is missing: the log begins with entry %d, and no snapshot holds what was before it", f.First))
	case f.Snapshot == 0 && len(broken) > 0:
		return fault.WithHint(broken[0], "the log holds every entry from the first on: move the directory "+
			"\"snapshots\" away, and the state is made anew from them")
	case max(f.Last, f.Snapshot) < c.held:
		return c.bad(c.wal, fmt.Errorf("its entries end with %d; those up to %d were stored, and are lost",
			max(f.Last, f.Snapshot), c.held))
	}
	f.Warnings = append(f.Warnings, broken...)
	return nil
}

func (c *dirCheck) bad(path string, err error) error { return damaged(err, "check log", path, c.dir) }

// snapshots reads every snapshot, and returns those that are damaged.
func (c *dirCheck) snapshots() (broken []error, err error) {
	dir := filepath.Join(c.dir, "snapshots")
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, classify(err, "check log", dir)
	}
	for _, e := range list {
		if !e.IsDir() || strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		index, path, err := readSnapshot(filepath.Join(dir, e.Name()))
		if err != nil {
			broken = append(broken, c.bad(path, err))
			continue
		}
		c.found.Snapshot = max(c.found.Snapshot, index)
	}
	return broken, nil
}

// segments reads the list of segments and all of them; begun: there is a log.
func (c *dirCheck) segments() (begun bool, err error) {
	files, err := filepath.Glob(filepath.Join(c.wal, "*.wal"))
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "check log", c.wal)
	}
	meta := filepath.Join(c.wal, metaFile)
	if _, err := os.Stat(meta); errors.Is(err, fs.ErrNotExist) {
		if len(files) > 0 {
			return false, c.bad(meta, errors.New("it is missing: nothing says which of the segments beside it count"))
		}
		return false, nil
	}
	if err := kv.Check(meta, metadb.MetaBucket, metadb.StableBucket); err != nil {
		return false, c.bad(c.wal, err) // which names the file
	}
	list, err := c.list(meta)
	if err != nil {
		return false, c.bad(meta, err)
	}
	for _, f := range files {
		var base, id uint64
		if _, err := fmt.Sscanf(filepath.Base(f), "%020d-%016x.wal", &base, &id); err != nil {
			return false, c.bad(f, errors.New("its name is not that of a segment"))
		}
		if id >= list.NextSegmentID {
			return false, c.bad(meta, fmt.Errorf("it is older than the segment %s beside it", filepath.Base(f)))
		}
	}
	for i, info := range list.Segments {
		path := filepath.Join(c.wal, segment.FileName(info))
		if i > 0 && info.BaseIndex != list.Segments[i-1].MaxIndex+1 {
			return false, c.bad(meta, fmt.Errorf("the entries before %d are missing in its list", info.BaseIndex))
		}
		r, err := readSegment(c.wal, info, c.held)
		if err != nil {
			return false, c.bad(path, err)
		}
		c.add(info, r)
	}
	return true, nil
}

func (c *dirCheck) add(info types.SegmentInfo, r read) {
	last := info.BaseIndex + uint64(len(r.offsets)) - 1
	if !info.SealTime.IsZero() {
		last = info.MaxIndex
	} else {
		c.found.Dropped = r.dropped
	}
	if len(r.offsets) == 0 || last < info.MinIndex {
		return
	}
	if c.found.First == 0 {
		c.found.First = info.MinIndex
	}
	c.found.Last = last
}

func (c *dirCheck) list(meta string) (out types.PersistentState, err error) {
	err = kv.Read(meta, metadb.MetaBucket, metadb.MetaKey, func(data []byte) error {
		return json.Unmarshal(data, &out)
	})
	for key, to := range map[string]*uint64{string(currentTerm): &c.found.Term, string(heldKey): &c.held} {
		if err == nil {
			err = kv.Read(meta, metadb.StableBucket, key, func(data []byte) error {
				if len(data) != 8 {
					return fmt.Errorf("%s has %d bytes", key, len(data))
				}
				*to = binary.LittleEndian.Uint64(data) // as the library writes it
				return nil
			})
		}
	}
	return out, err
}

// opened says at the start of a server what was found in its log, and notes that all of it is relied on from here on.
func (l *Log) opened(store *guard, f Found) {
	for _, w := range f.Warnings {
		l.cfg.Log.Warn("something in the log's directory is damaged; it is not needed, because something older "+
			"replaces it", "error", w)
	}
	if f.Dropped > 0 {
		l.cfg.Log.Warn("the end of the log was being written when the server ended; it was never acknowledged, and is "+
			"dropped", "path", walDir(l.cfg), "bytes", f.Dropped, "last_entry", f.Last)
	}
	store.hold()
}

// segmentOf is the file that has an entry, for people.
func segmentOf(dir string, index uint64) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return dir
	}
	slices.Sort(files)
	out := dir
	for _, f := range files {
		var base, id uint64
		if _, err := fmt.Sscanf(filepath.Base(f), "%020d-%016x.wal", &base, &id); err == nil && base <= index {
			out = f
		}
	}
	return out
}

// verified is an entry that was read, if it is sound.
func (g *guard) verified(index uint64, e *raft.Log) error {
	err := sound(e)
	if err == nil && e.Index != index {
		err = fmt.Errorf("entry %d is damaged: it says that it is entry %d", index, e.Index)
	}
	if err == nil {
		return nil
	}
	return damaged(err, "read log", segmentOf(filepath.Join(g.dir, "wal"), index), g.dir)
}

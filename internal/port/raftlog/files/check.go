// Package files owns what lies in the directory of a log: the segments, their list and the checksums in them, the copy
// of the vote, and the snapshots. It reads what is damaged as far as that goes, says what is missing, and replaces a
// log by a mended one. Package raftlog alone writes by it.
package files

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

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// HeldKey is where the log notes an entry up to which all were on disk: at its start, at its end, and in between every
// HeldEvery entries. If one up to it is missing, it was lost, and not cut off as it was written.
var HeldKey = []byte("BerthHeld")

// BegunKey is where the log notes the first entry of the newest segment that may hold one which was acknowledged. The
// library lists a segment before it makes its file: one that is not noted, and has none, was never written to.
var BegunKey = []byte("BerthBegun")

// HeldEvery is after how many entries that is noted anew.
const HeldEvery = 256

// Found is what lies in the directory of a log, and can be relied on.
type Found struct {
	First, Last uint64 // entries; 0: none
	Term        uint64
	Snapshot    uint64 // up to which entry the newest whole snapshot reaches; 0: there is none
	// Dropped is how many bytes at the end are of a write that was cut off, and so was never acknowledged.
	Dropped int
	tail    string // the file that they are in
	from    int64  // where they begin
	// Unmade: the last segment's file is not what it is when its first entry is stored, and nothing says that none was:
	// all may be lost.
	Unmade bool
	// Overruled is up to which entry this server must have the others' before it votes; 0: it may.
	Overruled uint64
	// Warnings name what is damaged and not needed, because something older replaces it.
	Warnings []error
	// NoVote is set when nothing says any more how this server has voted: others cannot mend that.
	NoVote error
}

// Check reads everything in the directory of a log that nobody uses, and refuses, by the path of the file, what is
// Damaged and cannot be done without. It changes nothing.
func Check(dir string) (Found, error) {
	c := dirCheck{dir: dir, wal: filepath.Join(dir, "wal")}
	v, err := overruled(dir)
	if err == nil {
		c.found.Overruled = v.Votes
		err = c.all()
	}
	c.votes()
	return c.found, err
}

// ClearDropped makes zeros of what is of a write that was cut off, as all is that was never written: what lies there
// longer than the next write would be found again at each start.
func (f *Found) ClearDropped() (err error) {
	from := max(f.from, SegmentHead)
	n := f.from + int64(f.Dropped) - from
	if n <= 0 {
		return nil
	}
	file, err := os.OpenFile(f.tail, os.O_WRONLY, 0)
	if err != nil {
		return Classify(err, "clear the end of", f.tail)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteAt(make([]byte, n), from); err != nil {
		return Classify(err, "clear the end of", f.tail)
	}
	return Classify(file.Sync(), "clear the end of", f.tail)
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
	begun    uint64   // see BegunKey; 0: it is not known
	vote     Vote     // that the library's store has
	unread   []string // directories of snapshots that are damaged
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

// votes holds the copy of the vote against the store's.
func (c *dirCheck) votes() {
	copied := Votes{Dir: c.dir}
	kept, err := copied.read()
	_, known := c.listed()
	warn := func(path string, err error) {
		c.found.Warnings = append(c.found.Warnings, fault.Wrap(err, fault.Internal, "check log", path))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // a lone voter has none
	case err != nil && !known:
		c.found.NoVote = noVote(copied.path(), err)
	case err != nil:
		warn(copied.path(), fmt.Errorf("%w; the next start makes it anew from %s", err, MetaFile))
	case known && kept.Term >= c.vote.Term && !kept.same(c.vote):
		warn(filepath.Join(c.wal, MetaFile), fmt.Errorf(
			"its vote is not that by which this server has acted last; the next start takes that of %s", VoteFile))
	}
}

func (c *dirCheck) bad(path string, err error) error { return Damaged(err, "check log", path, c.dir) }

// snapshots reads every snapshot, and returns those that are damaged.
func (c *dirCheck) snapshots() (broken []error, err error) {
	dir := filepath.Join(c.dir, "snapshots")
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Classify(err, "check log", dir)
	}
	for _, e := range list {
		if !e.IsDir() || strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		index, path, err := readSnapshot(filepath.Join(dir, e.Name()))
		if err != nil {
			broken = append(broken, c.bad(path, err))
			c.unread = append(c.unread, filepath.Join(dir, e.Name()))
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
	meta := filepath.Join(c.wal, MetaFile)
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
	if err := c.names(meta, list); err != nil {
		return false, err
	}
	for _, info := range list.Segments {
		path := filepath.Join(c.wal, segment.FileName(info))
		r, err := readSegment(c.wal, info, c.held)
		if err != nil {
			return false, c.bad(path, err)
		}
		c.add(info, r)
	}
	return true, nil
}

// names holds the list of segments, which meta has, against itself and against the files beside it.
func (c *dirCheck) names(meta string, list types.PersistentState) error {
	files, err := filepath.Glob(filepath.Join(c.wal, "*.wal"))
	if err != nil {
		return fault.Wrap(err, fault.Internal, "check log", c.wal)
	}
	for _, f := range files {
		base, id, ok := named(f)
		if !ok {
			return c.bad(f, errors.New("its name is not that of a segment"))
		}
		if id >= list.NextSegmentID {
			return c.bad(meta, fmt.Errorf("it is older than the segment %s beside it", filepath.Base(f)))
		}
		for _, info := range list.Segments {
			if info.ID == id && info.BaseIndex != base {
				return c.bad(meta, fmt.Errorf("what it says of segment %d is not what %s is", id, filepath.Base(f)))
			}
		}
	}
	if n := len(list.Segments); n == 0 && list.NextSegmentID > 0 ||
		n > 0 && list.Segments[n-1].ID+1 != list.NextSegmentID {
		return c.bad(meta, errors.New("its list ends before the last segment that was made"))
	}
	for i, info := range list.Segments {
		if i > 0 && info.BaseIndex != list.Segments[i-1].MaxIndex+1 {
			return c.bad(meta, fmt.Errorf("the entries before %d are missing in its list", info.BaseIndex))
		}
		if err := orderly(list.Segments, i); err != nil {
			return c.bad(meta, err)
		}
	}
	return nil
}

// orderly says what in the list of segments the library never writes. It does not look itself, and pages of its store
// have no checksum: it would leave out entries, or begin anew.
func orderly(list []types.SegmentInfo, i int) error {
	info, tail := list[i], i == len(list)-1
	ok := info.MinIndex >= info.BaseIndex && info.Codec == wal.CodecBinaryV1 && info.SizeLimit > 0
	if i > 0 { // only of the first segment entries may have been dropped
		ok = ok && info.MinIndex == info.BaseIndex && info.ID > list[i-1].ID
	}
	if tail { // which alone takes entries
		ok = ok && info.SealTime.IsZero() && info.MaxIndex == 0 && info.IndexStart == 0
	} else {
		ok = ok && !info.SealTime.IsZero() && info.MinIndex <= info.MaxIndex
	}
	if !ok {
		return fmt.Errorf("its list contradicts itself where it speaks of the segment that begins with entry %d",
			info.BaseIndex)
	}
	return nil
}

func (c *dirCheck) add(info types.SegmentInfo, r read) {
	last := info.BaseIndex + uint64(len(r.offsets)) - 1
	if !info.SealTime.IsZero() {
		last = info.MaxIndex
	} else {
		c.found.Dropped, c.found.from = r.dropped, int64(r.end)
		c.found.tail = filepath.Join(c.wal, segment.FileName(info))
		c.found.Unmade = len(r.data) < int(info.SizeLimit) && info.BaseIndex > 1 &&
			(c.begun == 0 || c.begun >= info.BaseIndex)
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
	for key, to := range map[string]*uint64{string(CurrentTerm): &c.found.Term, string(HeldKey): &c.held,
		string(BegunKey): &c.begun} {
		if err == nil {
			err = fault.Note(kv.Read(meta, metadb.StableBucket, key, number64(to)), "read", key)
		}
	}
	return out, err
}

// number64 decodes a number as the library writes it.
func number64(to *uint64) func([]byte) error {
	return func(data []byte) error {
		if len(data) != 8 {
			return fmt.Errorf("it has %d bytes in place of 8", len(data))
		}
		*to = binary.LittleEndian.Uint64(data)
		return nil
	}
}

// SegmentOf is the file that has an entry, for people.
func SegmentOf(dir string, index uint64) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return dir
	}
	slices.Sort(files)
	out := dir
	for _, f := range files {
		if base, _, ok := named(f); ok && base <= index {
			out = f
		}
	}
	return out
}

// TailOf is the first entry of the last segment that was made for the log in a directory.
func TailOf(dir string) (base uint64) {
	list, err := filepath.Glob(filepath.Join(WALDir(dir), "*.wal"))
	if err != nil {
		return 0
	}
	for _, f := range list {
		if b, _, ok := named(f); ok {
			base = max(base, b)
		}
	}
	return base
}

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
)

// KeptSnapshots is how many snapshots stay.
const KeptSnapshots = 2

// Snapshots are the library's, with names that survive a power failure. The library syncs the files of a snapshot and
// the directory that the snapshot is moved into, but not the one that the files are in, nor that of all snapshots; it
// drops the entries that a snapshot holds as soon as it is closed; and it removes an old one file by file under its
// name, so that half of it would be left for ever by a crash, and be taken for damage.
type Snapshots struct {
	*raft.FileSnapshotStore
	// Wrote hears up to which entry a snapshot reaches that is on disk, before anybody else does; nil: nobody hears.
	Wrote func(index uint64) error
	dir   string
	reach atomic.Pointer[Reach] // of the newest
}

// Reach is the last entry of the newest snapshot; zero: there is none.
func (s *Snapshots) Reach() Reach { return *s.reach.Load() }

// OpenSnapshots opens those of the log in a directory.
func OpenSnapshots(dir string, log hclog.Logger) (*Snapshots, error) {
	s := &Snapshots{dir: filepath.Join(dir, "snapshots")} // where the library has them
	if err := MakeDir(s.dir); err != nil {
		return nil, err
	}
	err := closeToOthers(s.dir)
	if err != nil {
		return nil, err
	}
	if err := takesFiles(s.dir); err != nil {
		return nil, err
	}
	if err := dropUnfinished(s.dir); err != nil {
		return nil, Classify(err, "remove unfinished snapshots from", s.dir)
	}
	s.FileSnapshotStore, err = raft.NewFileSnapshotStoreWithLogger(dir, math.MaxInt, log) // reap drops the old ones
	if err != nil {
		return nil, err
	}
	kept, err := s.List() // the newest first
	if err == nil {
		err = s.reap(kept)
	}
	if err != nil {
		return nil, err
	}
	s.reach.Store(&Reach{})
	if len(kept) > 0 {
		s.reach.Store(&Reach{Index: kept[0].Index, Term: kept[0].Term})
	}
	return s, nil
}

// takesFiles tries what the library tries, too, which does not say what is missing: a file system can have no room for
// the name of a file while it has for data.
func takesFiles(dir string) error {
	path := filepath.Join(dir, "permTest") // of the library
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(path))
	}
	if IsFull(err) {
		return fault.WithHint(fault.Wrap(err, fault.Exhausted, "make a file in", dir),
			"the agent cannot start without a new file: look whether the file system has inodes left (df -i) and room "+
				"(df), and remove files from it")
	}
	return Classify(err, "make a file in", dir)
}

// Create begins a snapshot.
func (s *Snapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{
		SnapshotSink: sink,
		dir:          filepath.Join(s.dir, sink.ID()+unfinished),
		of:           s,
		reach:        Reach{Index: index, Term: term},
	}, nil
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	raft.SnapshotSink
	dir    string // of it, until it is closed
	of     *Snapshots
	reach  Reach
	closed bool
}

// Close ends the snapshot. The names of its files, which are there since it was begun, are on disk before it gets its
// own: a directory that has the name of a snapshot holds a whole one. Before Close has returned the one before and the
// entries since are still there.
func (s *snapshotSink) Close() error {
	if s.closed { // the library closes it a second time
		return nil
	}
	s.closed = true
	if err := errors.Join(closeToOthers(s.dir), durable.SyncDir(s.dir)); err != nil {
		return errors.Join(Classify(err, "write snapshot", s.dir), s.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	s.of.reach.Store(&s.reach)
	err := sealMeta(strings.TrimSuffix(s.dir, unfinished))
	if err == nil {
		var all []*raft.SnapshotMeta
		if all, err = s.of.List(); err == nil {
			err = s.of.reap(all)
		}
	}
	if err != nil || s.of.Wrote == nil {
		return err
	}
	return s.of.Wrote(s.reach.Index)
}

// unfinished is what the name of a snapshot ends with that is being written, or removed.
const unfinished = ".tmp"

// reap drops all but the newest of those that are listed.
func (s *Snapshots) reap(all []*raft.SnapshotMeta) error {
	for _, old := range all[min(KeptSnapshots, len(all)):] {
		if err := dropSnapshot(filepath.Join(s.dir, old.ID)); err != nil {
			return Classify(err, "remove an old snapshot from", s.dir)
		}
	}
	return nil
}

// dropSnapshot takes its name from a snapshot before its files: no half of one is ever taken for it.
func dropSnapshot(path string) error {
	err := os.Rename(path, path+unfinished)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err == nil {
		err = os.RemoveAll(path + unfinished)
	}
	return err
}

// dropUnfinished removes what was being written, or removed, when the server ended.
func dropUnfinished(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "*"+unfinished))
	for _, path := range found {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// metaSum is the file beside a snapshot's meta.json that has its checksum: the library has one of the state alone.
// Snapshots of versions before have none.
const metaSum = "meta.crc32c"

func sealMeta(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, metaFileOfSnapshot))
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, metaSum), sumOfMeta(data), 0o600)
	}
	return Classify(err, "write snapshot", dir)
}

const metaFileOfSnapshot = "meta.json"

func sumOfMeta(meta []byte) []byte {
	return fmt.Appendf(nil, "%08x\n", crc32.Checksum(meta, castagnoli))
}

// soundMeta holds what a snapshot is said to be against its checksum.
func soundMeta(dir string, meta []byte) error {
	want, err := os.ReadFile(filepath.Join(dir, metaSum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !bytes.Equal(want, sumOfMeta(meta)) {
		err = errors.New("it does not match its checksum")
	}
	return err
}

// readSnapshot reads a snapshot as the library left it in dir, and tells up to which entry it reaches, or which file of
// it is damaged.
func readSnapshot(dir string) (index uint64, path string, err error) {
	path = filepath.Join(dir, metaFileOfSnapshot)
	var meta struct {
		raft.SnapshotMeta
		CRC []byte
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err == nil {
		err = soundMeta(dir, data)
	}
	if err != nil {
		return 0, path, err
	}
	path = filepath.Join(dir, "state.bin")
	f, err := os.Open(path)
	if err != nil {
		return 0, path, err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	if _, err := io.Copy(sum, f); err != nil {
		return 0, path, err
	}
	if !bytes.Equal(sum.Sum(nil), meta.CRC) {
		return 0, path, errors.New("it does not match its checksum")
	}
	return meta.Index, path, nil
}

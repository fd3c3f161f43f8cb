package raftlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/base/durable"
)

const keptSnapshots = 2

// snapshots are the library's, with names that survive a power failure. The library syncs the files of a snapshot and
// the directory that the snapshot is moved into, but not the one that the files are in, nor that of all snapshots; and
// it drops the entries that a snapshot holds as soon as it is closed.
type snapshots struct {
	*raft.FileSnapshotStore
	dir string
}

func openSnapshots(dir string, log hclog.Logger) (*snapshots, error) {
	s := &snapshots{dir: filepath.Join(dir, "snapshots")} // where the library has them
	if err := makeDir(s.dir); err != nil {
		return nil, err
	}
	err := closeToOthers(s.dir)
	if err != nil {
		return nil, err
	}
	s.FileSnapshotStore, err = raft.NewFileSnapshotStoreWithLogger(dir, keptSnapshots, log)
	return s, err
}

// Create begins a snapshot.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, dir: filepath.Join(s.dir, sink.ID()+".tmp")}, nil
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	raft.SnapshotSink
	dir    string // of it, until it is closed
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
		return errors.Join(classify(err, "write snapshot", s.dir), s.Cancel())
	}
	return s.SnapshotSink.Close()
}

// readSnapshot reads a snapshot as the library left it in dir, and tells up to which entry it reaches, or which file of
// it is damaged.
func readSnapshot(dir string) (index uint64, path string, err error) {
	path = filepath.Join(dir, "meta.json")
	var meta struct {
		raft.SnapshotMeta
		CRC []byte
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &meta)
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

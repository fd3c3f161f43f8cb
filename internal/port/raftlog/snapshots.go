package raftlog

import (
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
	var err error
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
	return &snapshotSink{SnapshotSink: sink, dir: filepath.Join(s.dir, sink.ID())}, nil
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	raft.SnapshotSink
	dir string // of it, once it is closed
}

// Close ends the snapshot. Before that has returned the one before and the entries since are still there.
func (s *snapshotSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return classify(durable.SyncDir(s.dir), "write snapshot", s.dir)
}

package files

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
)

// Options say where the files of a log are, and how they are written.
type Options struct {
	Dir         string
	SegmentSize int // of the write-ahead log, in bytes
	Log         *slog.Logger
	// Made hears which entry is the first of a segment that was made, before it is stored; nil: nobody does.
	Made func(base uint64)
	Next *NextSegment // nil: a segment is not waited for that there is no room for
}

// MakeDir makes a directory for its owner alone.
func MakeDir(dir string) error {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return Classify(err, "make directory", dir)
	}
	return nil
}

// WALDir is where the segments of a log are.
func WALDir(dir string) string { return filepath.Join(dir, "wal") }

// OpenWAL opens the write-ahead log.
func OpenWAL(cfg Options) (*wal.WAL, error) { return openWALIn(cfg, WALDir(cfg.Dir)) }

func openWALIn(cfg Options, dir string) (*wal.WAL, error) {
	if err := MakeDir(dir); err != nil {
		return nil, err
	}
	list := &segmentList{BoltMetaDB: &metadb.BoltMetaDB{}, next: cfg.Next}
	made := &segments{
		SegmentFiler: segment.NewFiler(dir, private{fs.New(), cfg.Made}),
		next:         cfg.Next,
		list:         list,
	}
	var err error
	if list.ahead, err = finishRotation(dir); err != nil && (cfg.Next == nil || list.ahead == nil) {
		return nil, Classify(err, "open log", dir)
	}
	w, err := wal.Open(dir, wal.WithSegmentSize(cfg.SegmentSize), wal.WithLogger(NewLogger(cfg.Log)),
		wal.WithMetaStore(list), wal.WithSegmentFiler(made))
	if err != nil {
		return nil, Classify(fmt.Errorf("open: %w", err), "open log", dir)
	}
	made.open = true
	if err := closeToOthers(dir); err != nil {
		return nil, errors.Join(Classify(err, "open log", dir), w.Close())
	}
	return w, nil
}

// Classify gives an error of the file system its kind and names the path.
func Classify(err error, op, path string) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return err
	case IsFull(err):
		return &fault.Error{
			Kind:    fault.Exhausted,
			Op:      op,
			Subject: path,
			Err:     err,
			Hint:    "free some room on that file system",
		}
	}
	return fault.Wrap(err, fault.Internal, op, path)
}

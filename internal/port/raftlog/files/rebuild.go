package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
	"berth/internal/base/logkey"
)

// mendedDir is where a log is written before it takes the place of a damaged one.
const mendedDir = "wal.mended"

const maxWrite = 512 // entries in one write

// Rebuild replaces the log by one of these entries. That is written whole, beside it, and read, before the two change
// places at once: at every moment the directory has the damaged log or the mended one.
func (w *Wound) Rebuild(cfg Options, entries []*raft.Log) error {
	if err := DropUnfinished(cfg.Dir); err != nil {
		return err
	}
	dir, place := filepath.Join(cfg.Dir, mendedDir), WALDir(cfg.Dir)
	if err := w.write(cfg, dir, entries); err != nil {
		return err
	}
	c := dirCheck{dir: cfg.Dir, wal: dir}
	if _, err := c.segments(); err != nil {
		return fmt.Errorf("what was written anew is damaged, too: %w", err)
	}
	if err := MakeDir(place); err != nil { // one that was deleted
		return err
	}
	if err := durable.SyncDir(dir); err != nil {
		return Classify(err, "write log", dir)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE); err != nil {
		return Classify(err, "replace damaged log", place)
	}
	if err := durable.SyncDir(cfg.Dir); err != nil {
		return Classify(err, "replace damaged log", place)
	}
	for _, snapshot := range w.broken {
		cfg.Log.Warn("a damaged snapshot is dropped: the log does not need it", logkey.Path, snapshot)
		if err := dropSnapshot(snapshot); err != nil {
			return Classify(err, "remove damaged snapshot", snapshot)
		}
	}
	return DropUnfinished(cfg.Dir)
}

// write makes a log in a directory.
func (w *Wound) write(cfg Options, dir string, entries []*raft.Log) (err error) {
	made, err := openWALIn(cfg, dir)
	if err != nil {
		return err
	}
	defer func() { err = Classify(errors.Join(err, made.Close()), "write log", dir) }()
	for rest := entries; len(rest) > 0; {
		n := min(len(rest), maxWrite)
		if err := made.StoreLogs(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if n := len(entries); n > 0 {
		err = made.SetUint64(HeldKey, entries[n-1].Index)
	}
	return errors.Join(err, w.Vote.store(made))
}

// DropUnfinished removes what a mending has left that was cut off, and the damaged log that a mended one has replaced.
func DropUnfinished(dir string) error {
	path := filepath.Join(dir, mendedDir)
	if err := os.RemoveAll(path); err != nil {
		return Classify(err, "remove", path)
	}
	return nil
}

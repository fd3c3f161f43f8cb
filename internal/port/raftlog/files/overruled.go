package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/durable"
)

// A state that is put in place of another is a snapshot of the server that leads, before any other server has it. If it
// leads no more by then, the others go on without: that snapshot is the only one that may hold what was never agreed
// on. It takes the place of entries that this server has acknowledged, and must get back before it votes.

// overruledFile names the snapshot that is none of the others' history, until the log is theirs.
const overruledFile = "overruled.json"

// Reach is the last entry of a snapshot.
type Reach struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// Overrule notes that the others have another entry in the place of the one with which a snapshot ends.
func Overrule(dir string, r Reach) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, overruledFile), data, 0o600)
	}
	return Classify(err, "note an overruled state in", dir)
}

// Abandon removes the snapshot that was overruled, and returns a log that lacks all that no snapshot before it holds.
// nil: none was. It may be called again, until Settle.
func Abandon(dir string) (*Wound, error) {
	path := filepath.Join(dir, overruledFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Reach
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil {
		err = removeSnapshots(filepath.Join(dir, "snapshots"), r)
	}
	if err != nil {
		return nil, Classify(err, "drop an overruled state from", path)
	}
	w, err := Sift(dir)
	if err != nil {
		return nil, err
	}
	w.Head, w.Tail = nil, nil
	w.From, w.To = max(w.Snapshot, 1), 0
	return w, nil
}

// Settle forgets that a state was overruled: the log is the others'.
func Settle(dir string) error {
	err := os.Remove(filepath.Join(dir, overruledFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	return Classify(err, "note that the state is the others' in", dir)
}

// removeSnapshots removes those that end with an entry. The library's names of them begin with its term and its index.
func removeSnapshots(dir string, r Reach) error {
	found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%d-%d-*", r.Term, r.Index)))
	if err != nil || len(found) == 0 {
		return err
	}
	for _, path := range found {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return durable.SyncDir(dir)
}

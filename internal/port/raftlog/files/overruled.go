package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/durable"
	"berth/internal/base/logkey"
)

// A state that is put in place of another is a snapshot of the server that leads, before any other server has it. If it
// leads no more by then, the others go on without: that snapshot is the only one that may hold what was never agreed
// on. It took the place of entries that this server has acknowledged, and must get back before it votes.

// overruledFile names the snapshot that is none of the others' history, until this server has theirs.
const overruledFile = "overruled.json"

// Reach is the last entry of a snapshot.
type Reach struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// verdict is what is known of a snapshot that was overruled.
type verdict struct {
	Reach
	Votes uint64 `json:"votes"` // once this server has this entry of the others
}

// Overrule notes that the others do not have the entry with which a snapshot ends, and that this server is not to vote
// before it has another entry of theirs.
func Overrule(dir string, r Reach, votes uint64) error {
	data, err := json.Marshal(verdict{r, votes})
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, overruledFile), data, 0o600)
	}
	return Classify(err, "note an overruled state in", dir)
}

// overruled is the snapshot that was overruled; zero: none was.
func overruled(dir string) (v verdict, err error) {
	path := filepath.Join(dir, overruledFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return verdict{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, Classify(err, "read", path)
}

// Abandon drops the snapshot that was overruled, and all entries: none of those before it are left, and those behind it
// are no others'. The vote stays. It may be called again, until Settle.
func Abandon(cfg Options) error {
	v, err := overruled(cfg.Dir)
	if err != nil || v.Index == 0 {
		return err
	}
	if err := removeSnapshots(filepath.Join(cfg.Dir, "snapshots"), v.Reach); err != nil {
		return Classify(err, "drop an overruled state from", cfg.Dir)
	}
	w, err := Sift(cfg.Dir)
	if err != nil {
		return err
	}
	cfg.Log.Warn("the state that was restored here was never agreed on, and is dropped; this server neither votes nor "+
		"leads before it has got the others'", logkey.Path, cfg.Dir, "entry", v.Index)
	return w.Rebuild(cfg, nil)
}

// Settle forgets that a state was overruled: this server has what the others have in its place.
func Settle(dir string) error {
	err := os.Remove(filepath.Join(dir, overruledFile))
	if err == nil {
		err = durable.SyncDir(dir)
	}
	return Classify(err, "note that the state is the others' in", dir)
}

// removeSnapshots removes those that end with an entry. The library's names of them begin with its term and its index.
func removeSnapshots(dir string, r Reach) error {
	found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%d-%d-*", r.Term, r.Index)))
	for _, path := range found {
		if !strings.HasSuffix(path, unfinished) {
			err = errors.Join(err, dropSnapshot(path))
		}
	}
	return err
}

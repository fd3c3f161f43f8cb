// Package volumestore owns by what the directory in which the bundled plugin keeps volumes is told from another one in
// its place, as from the empty one beneath a disk that is not mounted: the identity in it, and the copy of that which
// lies outside of it. The plugin, its agent and the check of a data_dir ask the same judgement.
package volumestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
)

// Identity says whose a directory is, and which one. The instance is made with it.
type Identity struct {
	Schema   int    `json:"schema"`
	Node     string `json:"node"`
	Instance string `json:"instance"`
}

// Beneath a directory.
const (
	IdentityFile = "place.json"
	VolumesDir   = "volumes"
	SnapshotsDir = "snapshots"
)

// Copy is where an agent has the copy of the identity of a directory: beside it, on its own disk.
func Copy(dir string) string { return dir + ".identity" }

// Held tells whether anything lies in a directory that an identity would be of.
func Held(dir string) (bool, error) {
	for _, name := range []string{VolumesDir, SnapshotsDir} {
		list, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(list) > 0 {
			return len(list) > 0, err
		}
	}
	return false, nil
}

// Judge refuses a directory that is not the one of which copy tells: what is asked of its volumes would be answered of
// another's. Without a copy any is the right one. An identity that is damaged, or missing beside volumes, is not
// judged: that is a damage of the directory.
func Judge(dir, copied string) error {
	was, err := read(copied)
	switch {
	case copied == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.WithHint(fault.Wrap(err, fault.Invalid, "read", copied),
			fmt.Sprintf("it says which directory %s is: look whether that is the one of this node, and then "+
				"remove it: the next start makes it anew", dir))
	}
	at, err := read(filepath.Join(dir, IdentityFile))
	why := fmt.Sprintf("it is of instance %s, and this node's volumes are in instance %s", at.Instance, was.Instance)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if held, err := Held(dir); held || err != nil {
			return err
		}
		why = "it is empty, and this node's volumes are in instance " + was.Instance
	case err != nil || at.Instance == was.Instance:
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, "serve volumes from", dir, why+"; nothing was changed"),
		fmt.Sprintf("if they are on a disk that is not mounted, mount it on %s; if they are lost for good, say so by "+
			"removing %s: what is there begins to be this node's store then", dir, copied))
}

// Keep writes the copy of an identity, if there is none yet. "" is no copy.
func Keep(copied string, id Identity) error {
	if _, err := os.Lstat(copied); copied == "" || !errors.Is(err, fs.ErrNotExist) {
		return nil // Judge has read it
	}
	text, err := json.Marshal(id)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "encode", copied)
	}
	return fault.Wrap(durable.WriteFile(copied, append(text, '\n'), 0o600), fault.Internal, "write", copied)
}

// Instance is that of the directory which is there now.
func Instance(dir string) (string, error) {
	id, err := read(filepath.Join(dir, IdentityFile))
	return id.Instance, err
}

func read(path string) (id Identity, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, fmt.Errorf("decode %s: %w", path, err)
	}
	if id.Instance == "" {
		return id, fmt.Errorf("%s names no instance", path)
	}
	return id, nil
}

// Package volumestore owns by what the directory in which the bundled plugin keeps volumes is told from another one in
// its place, as from the empty one beneath a disk that is not mounted: the identity in it, and the copy of that which
// lies outside of it. The plugin, its agent and the check of a data_dir ask the same judgement. Where there is no copy
// yet, the servers know whether the node has volumes: the agent asks them before the plugin begins a directory.
package volumestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
)

// Identity says whose a directory is, and which one. The instance is made with it.
type Identity struct {
	Schema   int    `json:"schema"`
	Node     string `json:"node"`
	Instance string `json:"instance"`
}

// outside is what is known of a directory outside of it: its identity, or why there is none.
type outside struct {
	Identity
	// Undecided: it is asked whether the node has volumes. Volumes are those that it has, in a directory of which
	// nothing else is known. Lost: a person says that they are.
	Undecided bool     `json:"undecided,omitempty"`
	Volumes   []string `json:"volumes,omitempty"`
	Lost      bool     `json:"lost,omitempty"`
}

// Beneath a directory.
const (
	IdentityFile = "place.json"
	VolumesDir   = "volumes"
	SnapshotsDir = "snapshots"
)

// Copy is where an agent has the copy of the identity of a directory: beside it, on its own disk.
func Copy(dir string) string { return dir + ".identity" }

// OfNode tells whether a volume lies on a node, by the external id that the plugin gave it: that ends with its node's.
func OfNode(external, node string) bool { return strings.HasSuffix(external, "@"+node) }

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

// Begun tells whether a plugin has ever kept volumes in a directory.
func Begun(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, IdentityFile)); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	return Held(dir)
}

// Judge refuses a directory that is not the one of which copy tells: what is asked of its volumes would be answered of
// another's. Without a copy any is the right one. An identity that is damaged, or missing beside volumes, is not
// judged: that is a damage of the directory.
func Judge(dir, copied string) error {
	was, err := readOutside(copied)
	switch {
	case copied == "" || errors.Is(err, fs.ErrNotExist) || was.Lost:
		return nil
	case err != nil:
		return fault.WithHint(fault.Wrap(err, fault.Invalid, "read", copied),
			fmt.Sprintf("it says which directory %s is: look whether that is the one of this node, and then "+
				"remove it: the next start makes it anew", dir))
	case was.Instance == "":
		if begun, err := Begun(dir); begun || err != nil {
			return err
		}
		return was.refuse(dir)
	}
	at, err := Instance(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if held, err := Held(dir); held || err != nil {
			return err
		}
		return another(dir, copied, "it is empty, and this node's volumes are in instance "+was.Instance)
	case err != nil || at == was.Instance:
		return nil
	}
	return another(dir, copied,
		fmt.Sprintf("it is of instance %s, and this node's volumes are in instance %s", at, was.Instance))
}

// refuse is the refusal of a directory that nobody has begun, while the node has volumes, or may have some.
func (o outside) refuse(dir string) error {
	if o.Undecided {
		return fault.WithHint(fault.New(fault.NotReady, "serve volumes from", dir, "it is empty, and the servers have "+
			"not yet told the agent whether this node has volumes, which would be on a disk that is not mounted"),
			"the agent asks until they answer: look whether there is a leader: berth server members")
	}
	return another(dir, Copy(dir), "it is empty, and the servers know volumes of this node: "+Names(o.Volumes))
}

func another(dir, copied, why string) error {
	lost := "remove " + copied
	if copied == Copy(dir) {
		lost = fmt.Sprintf("stop the agent, and give them up, which ends what %s remembers: "+
			"berth operator forget-volumes %s", copied, filepath.Dir(dir))
	}
	return fault.WithHint(fault.New(fault.Conflict, "serve volumes from", dir, why+"; nothing was changed"),
		fmt.Sprintf("if they are on a disk that is not mounted, mount it on %s; if they are lost for good, %s",
			dir, lost))
}

// maxNames is how many volumes a sentence names.
const maxNames = 8

// Names lists volumes for a sentence.
func Names(volumes []string) string {
	if n := len(volumes) - maxNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(volumes[:maxNames], ", "), n)
	}
	return strings.Join(volumes, ", ")
}

// Keep writes the copy of an identity, if there is none yet. "" is no copy.
func Keep(copied string, id Identity) error {
	if copied == "" {
		return nil
	}
	was, err := readOutside(copied)
	if was.Instance != "" || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // Judge has read it
	}
	return writeOutside(copied, outside{Identity: id})
}

// Ask notes, where nobody has begun a directory and nothing outside of it says so, that it is not known whether the
// node has volumes: no plugin begins it before Answer. asks: the servers are to be asked.
func Ask(dir string) (asks bool, err error) {
	begun, err := Begun(dir)
	if begun || err != nil {
		return false, err
	}
	switch was, err := readOutside(Copy(dir)); {
	case errors.Is(err, fs.ErrNotExist):
		return true, writeOutside(Copy(dir), outside{Undecided: true})
	case err != nil:
		return false, nil // Judge says it
	default:
		return was.Instance == "" && !was.Lost, nil
	}
}

// Answer notes which volumes the node has, for a directory of which was asked: without any a plugin may begin it.
func Answer(dir string, volumes []string) error {
	was, err := readOutside(Copy(dir))
	switch {
	case err != nil || was.Instance != "" || was.Lost: // a plugin found the right one meanwhile
		return nil
	case len(volumes) > 0:
		return writeOutside(Copy(dir), outside{Volumes: volumes})
	}
	if err := os.Remove(Copy(dir)); err != nil {
		return fault.Wrap(err, fault.Internal, "remove", Copy(dir))
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Forget notes that the volumes of a node are lost: what is at their place begins to be its store.
func Forget(dir string) error { return writeOutside(Copy(dir), outside{Lost: true}) }

// Instance is that of the directory which is there now.
func Instance(dir string) (string, error) {
	path := filepath.Join(dir, IdentityFile)
	id, err := read(path)
	if err == nil && id.Instance == "" {
		err = fmt.Errorf("%s names no instance", path)
	}
	return id.Instance, err
}

// readOutside reads what is known of a directory outside of it.
func readOutside(path string) (outside, error) {
	o, err := read(path)
	if err == nil && o.Instance == "" && !o.Undecided && !o.Lost && len(o.Volumes) == 0 {
		err = fmt.Errorf("%s names no instance", path)
	}
	return o, err
}

func writeOutside(path string, o outside) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "encode", path)
	}
	return fault.Wrap(durable.WriteFile(path, append(text, '\n'), 0o600), fault.Internal, "write", path)
}

func read(path string) (o outside, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("decode %s: %w", path, err)
	}
	return o, nil
}

package evidence

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// TargetTail is where a volume is published for an alloc below the base directory of its plugin: the plugin makes and
// removes it, its parent is ours.
func TargetTail(externalID string, alloc ids.Alloc) string {
	return "p/" + ids.Segment(externalID, string(alloc)) + "/m"
}

// IDFile names a staging or a publication beside its path, outside any mount, so that a mount can be named, and undone,
// without the journal.
type IDFile struct {
	Key     volume.StagingKey
	Volume  volume.ID
	Staging entry.Staging
	Alloc   ids.Alloc
	Pub     *entry.Publication // nil: the staging
}

// path is where the id file of its content lies.
func (f *IDFile) path() string {
	if f.Pub != nil {
		return filepath.Dir(f.Pub.HostPath) + ".id"
	}
	return f.Staging.HostPath + ".id"
}

// NameOf is the content of the id file of a staging, or of an alloc's publication.
func NameOf(e *entry.Entry, alloc ids.Alloc) IDFile {
	f := IDFile{Key: e.Key, Volume: e.Volume, Staging: e.Staging, Alloc: alloc}
	f.Staging.Presence = volume.Uncertain
	f.Staging.Mounts = nil
	f.Staging.Own = nil
	f.Staging.By = entry.Run{}
	f.Staging.Device = entry.Device{}
	f.Staging.ExpandTo = 0
	f.Staging.ExpandedTo = 0
	if alloc != "" {
		p := *e.Pubs[alloc]
		p.Presence = volume.Uncertain
		p.By = entry.Run{}
		p.Own = nil
		f.Pub = &p
	}
	return f
}

// Into adds what an entry lacks of what the file names, and reports whether there was anything. Whether it is there is
// Uncertain.
func (f *IDFile) Into(e *entry.Entry) (added bool) {
	if st := &e.Staging; !st.Presence.Exists() {
		*st = f.Staging
		st.Presence, added = volume.Uncertain, true
	}
	switch p := e.Pubs[f.Alloc]; {
	case f.Pub == nil:
	case p == nil:
		f.Pub.Presence, added = volume.Uncertain, true
		e.Pubs[f.Alloc] = f.Pub
	case !p.Presence.Exists(): // it is wanted already
		p.HostPath, p.TaskPath = f.Pub.HostPath, f.Pub.TaskPath
		p.Presence, added = volume.Uncertain, true
	}
	return added
}

// WriteIDFile writes the id file of a staging, or of an alloc's publication, unless it is there already.
func WriteIDFile(codec kv.Codec, e *entry.Entry, alloc ids.Alloc) error {
	f := NameOf(e, alloc)
	data, err := codec.EncodeFile(fileKind, f)
	if err != nil {
		return err
	}
	name := f.path()
	if old, err := read(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return write(name, data)
}

// fileKind tells id files from other files with a checksum.
const fileKind = "csi-id"

// IDFiles lists the id files of all plugins below a data directory, and those that a crash left half written.
func IDFiles(dataDir string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"*/s/*.id", "*/p/*.id", "*/s/*.id.tmp", "*/p/*.id.tmp"} {
		names, err := filepath.Glob(filepath.Join(csiDir(dataDir), pattern))
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "look for", pattern)
		}
		out = append(out, names...)
	}
	return out, nil
}

// ReadIDFile reads an id file. It removes one that a crash left in the middle of being written: that names nothing, and
// nil is returned for it.
func ReadIDFile(codec kv.Codec, name string) (*IDFile, error) {
	if filepath.Ext(name) == ".tmp" {
		return nil, remove(name)
	}
	f, err := decode(codec, name)
	if err != nil {
		return nil, err
	}
	if own := f.path(); own != name {
		return nil, fault.New(fault.Conflict, "read", name, fmt.Sprintf("it names %s: it was copied or moved", own))
	}
	return f, nil
}

// CheckIDFiles reads all id files beneath a data directory, and returns how many there are and what cannot be read. It
// changes nothing. One that was copied or moved says nothing of the place where it lies, and is no damage.
func CheckIDFiles(codec kv.Codec, dataDir string) (n int, bad []error, err error) {
	names, err := IDFiles(dataDir)
	for _, name := range names {
		if filepath.Ext(name) == ".tmp" {
			continue // a write that was cut off: the next start removes it
		}
		if _, err := decode(codec, name); err != nil {
			bad = append(bad, err)
		}
		n++
	}
	return n, bad, err
}

// Home is the data directory that the id files beneath one say they lie in; empty: there are none that can be read.
func Home(codec kv.Codec, dataDir string) (string, error) {
	names, err := IDFiles(dataDir)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		f, err := decode(codec, name)
		if err != nil {
			continue // the keeper says it
		}
		if rest, beneath := strings.CutPrefix(name, dataDir); beneath {
			if home, own := strings.CutSuffix(f.path(), rest); own {
				return home, nil
			}
		}
	}
	return "", nil
}

// Reroot has the id files beneath a data directory that was moved name where they are now. One that cannot be read, or
// says that it lies elsewhere, stays as it is.
func Reroot(codec kv.Codec, dataDir, from string) error {
	names, err := IDFiles(dataDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := decode(codec, name)
		if err != nil || hostfs.Reroot(f.path(), from, dataDir) != name {
			continue // the keeper says it
		}
		e := entry.Entry{Staging: f.Staging, Pubs: map[ids.Alloc]*entry.Publication{}}
		if f.Pub != nil {
			e.Pubs[f.Alloc] = f.Pub
		}
		e.Reroot(func(path string) string { return hostfs.Reroot(path, from, dataDir) })
		f.Staging = e.Staging
		data, err := codec.EncodeFile(fileKind, f)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "encode", name)
		}
		if err := write(name, data); err != nil {
			return err
		}
	}
	return nil
}

func decode(codec kv.Codec, name string) (*IDFile, error) {
	data, err := read(name)
	if err != nil {
		return nil, err
	}
	f := &IDFile{}
	if err := codec.DecodeFile(fileKind, data, f); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	}
	return f, nil
}

package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// csiDir is the part of the data directory in which the bases of all plugins lie.
func csiDir(dataDir string) string { return filepath.Join(dataDir, "csi") }

// adoptUnrecorded makes entries of the stagings and publications that the store does not know but whose id files are
// there: the journal was damaged, or restored from an older copy. They are Uncertain. A mount that nobody can name is
// said, and left alone, for nobody knows whose data it is.
func (k *Keeper) adoptUnrecorded() error {
	if k.cfg.DataDir == "" {
		return nil
	}
	for _, pattern := range []string{"*/s/*.id", "*/p/*.id", "*/s/*.id.tmp", "*/p/*.id.tmp"} {
		names, err := filepath.Glob(filepath.Join(csiDir(k.cfg.DataDir), pattern))
		if err != nil {
			return fault.Wrap(err, fault.Internal, "look for", pattern)
		}
		for _, name := range names {
			if err := k.adoptFile(name); err != nil {
				k.cfg.Log.Error("a file that names a mount cannot be read; the mount is left alone", logkey.Path, name,
					logkey.Error, err)
			}
		}
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	for _, path := range k.unknownMounts(table) {
		k.cfg.Log.Error(
			"something is mounted where only storage plugins mount, and nothing says whose it is; it is left alone",
			logkey.Path, path)
	}
	return nil
}

// adoptFile adds what one id file names and the entries lack.
func (k *Keeper) adoptFile(name string) error {
	if filepath.Ext(name) == ".tmp" { // a crash left it in the middle of being written: it names nothing
		return fault.Wrap(os.Remove(name), fault.Internal, "remove", name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", name)
	}
	var f idFile
	if err := k.cfg.Codec.Decode(data, &f); err != nil {
		return fault.Wrap(err, fault.Internal, "read", name)
	}
	if own := f.path(); own != name {
		return fault.New(fault.Conflict, "read", name, fmt.Sprintf("it names %s: it was copied or moved", own))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.state(f.Key, f.Volume)
	adopted := false
	if st := &vs.entry.Staging; !st.Presence.Exists() {
		*st = f.Staging
		st.Presence, adopted = volume.Uncertain, true
	}
	if p := vs.entry.Pubs[f.Alloc]; f.Pub != nil && (p == nil || !p.Presence.Exists()) {
		p = f.Pub
		p.Presence = volume.Uncertain
		p.Wanted = true
		adopted = true // a want of an alloc that is not here is withdrawn
		vs.entry.Pubs[f.Alloc] = p
	}
	if adopted {
		vs.touch()
		k.cfg.Log.Warn("a volume that the journal lost is adopted by its id file", logkey.Plugin, f.Key.Plugin,
			logkey.Volume, f.Key.ExternalID, logkey.Alloc, f.Alloc, logkey.Path, name)
	}
	return nil
}

// unknownMounts lists mounts in the plugins' directories that no entry knows.
func (k *Keeper) unknownMounts(table *hostfs.Table) []string {
	root := csiDir(k.cfg.DataDir)
	known := map[string]bool{}
	k.mu.Lock()
	for _, vs := range k.vols {
		known[vs.entry.Staging.HostPath] = true
		for _, p := range vs.entry.Pubs {
			known[p.HostPath] = true
		}
	}
	k.mu.Unlock()
	var out []string
	for _, m := range table.Beneath(root) {
		rel, err := filepath.Rel(root, m.Path)
		if err != nil {
			continue // both paths are absolute: there is no such error
		}
		// <plugin>/s/<volume>[/…] and <plugin>/p/<publication>/m[/…]; a plugin's base alone is a shared mount of ours.
		parts := strings.Split(rel, "/")
		depth := 3
		if len(parts) > 1 && parts[1] == "p" {
			depth = 4
		}
		if len(parts) < depth || !known[filepath.Join(root, filepath.Join(parts[:depth]...))] {
			if len(parts) > 1 {
				out = append(out, m.Path)
			}
		}
	}
	return out
}

// path is where the id file of its content lies.
func (f *idFile) path() string {
	if f.Pub != nil {
		return filepath.Dir(f.Pub.HostPath) + ".id"
	}
	return f.Staging.HostPath + ".id"
}

// idFile names a staging or a publication beside its path, outside any mount, so that a mount can be named, and undone,
// without the journal.
type idFile struct {
	Key     volume.StagingKey
	Volume  volume.ID
	Staging Staging
	Alloc   ids.Alloc
	Pub     *Publication // nil: the staging
}

func stagingTail(externalID string) string { return "s/" + ids.Segment(externalID) }

func targetParentTail(externalID string, alloc ids.Alloc) string {
	return "p/" + ids.Segment(externalID, string(alloc))
}

// targetName is the target below its parent: the plugin makes and removes it.
const targetName = "m"

// writeIDFile writes the id file of a staging, or of an alloc's publication, unless it is there already.
func (k *Keeper) writeIDFile(path string, e *Entry, alloc ids.Alloc) error {
	f := idFile{Key: e.Key, Volume: e.Volume, Staging: e.Staging, Alloc: alloc}
	f.Staging.Presence = volume.Uncertain
	f.Staging.Mounts = nil
	f.Staging.ExpandTo = 0
	f.Staging.ExpandedTo = 0
	if alloc != "" {
		p := *e.Pubs[alloc]
		p.Presence = volume.Uncertain
		f.Pub = &p
	}
	data, err := k.cfg.Codec.Encode(f)
	if err != nil {
		return err
	}
	name := path + ".id"
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return hostfs.WriteFileSync(name, data, 0o600)
}
